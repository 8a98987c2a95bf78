"""What Passdown promises: one id, one sentence. `test_promises.py` ties each row to a test.

`P-n` are the promises of the README. `S0-n`, `S1-n` and `S3-n` are the finer rows behind them:
S0 for decisions, contexts and checksums, S1 for the state of a task, S3 for the handoff note.
An id is never given to another promise; a promise that is withdrawn takes its id with it.
"""

README = {
    "P-1": "An acknowledged handoff is on disk: it survives kill -9, torn writes and failed "
    "system calls.",
    "P-2": "A task has one order of versions, and a writer who worked from an old one gets a "
    "Conflict.",
    "P-3": "Retries are safe: the same key gives the same record.",
    "P-4": "Nothing is deleted behind your back: what is replaced, resolved or archived can still "
    "be read.",
    "P-5": "Changes show: verify finds what was altered, and saved heads show what was cut off or "
    "put back.",
    "P-6": "Stored text stays data: it is never run, never a template, and can't break the output "
    "around it.",
    "P-7": "A refused handoff lists every reason and changes nothing.",
    "P-8": "What a handoff and a brief cost doesn't grow with the history behind them.",
    "P-9": "The handle file never disagrees with the ledger without saying so.",
}

DECISIONS_AND_CHECKSUMS = {
    "S0-6": "A decision holds agent, summary, rationale, aware UTC time and artifacts, and can't "
    "be changed at any depth.",
    "S0-7": "A handoff context holds source, target, decisions, memory references, time and "
    "metadata; it can't be changed and has usable defaults.",
    "S0-11": "Storing a decision returns a key of agent and time that stays unique within one "
    "instant; anything but a decision is a TypeError.",
    "S0-12": "A stored decision comes back equal, field by field, whatever commas and colons its "
    "text holds.",
    "S0-22": "A state's checksum is SHA-256 as 64 hex digits and depends on the values alone: not "
    "on key order, process or day.",
    "S0-23": "A checksum leaves out the handoff context unless told otherwise; an empty exclusion "
    "set excludes nothing.",
    "S0-24": "The integrity check leaves out the current agent, the handoff context and the "
    "messages; any other changed, missing or truncated field fails it.",
    "S0-25": "A failed integrity check names the fields that differ.",
    "S0-26": "An integrity violation is logged with agents and fields and the run goes on; in "
    "strict mode it raises.",
    "S0-34": "Input is validated where it comes in; inside there are only plain typed values.",
    "S0-35": "Sources and tests are fully annotated and pass the strict type check; logs are "
    "structured.",
}

STATE_OF_A_TASK = {
    "S1-1": "A task's full state is one file; the prompt gets a small summary that names it.",
    "S1-2": "A task is planning, implementing, testing, reviewing or completed; its state shows "
    "the current phase, the previous one and when the current one began.",
    "S1-3": "An artifact is a reference: relative path, type, SHA-256 and size in bytes; never "
    "its content.",
    "S1-4": "Given the project folder, each artifact is reported as the same, changed or missing "
    "since the handoff.",
    "S1-5": "Given a token budget, the sizes say which artifacts fit inline and which stay "
    "references.",
    "S1-6": "A decision holds what was decided, a rationale that isn't empty, time, agent and "
    "alternatives.",
    "S1-7": "A blocking issue holds text, a severity of blocker, high, medium or low, a suggested "
    "action and whether a person is needed (by default not); other severities are refused.",
    "S1-8": "A state also holds id, title, summary, warnings, gates passed and failed, source, "
    "target, time of handoff and version.",
    "S1-15": "Saving a state file is atomic and durable: a failure or a kill leaves the old file "
    "or the new one, whole, and a failure leaves no temporary file.",
    "S1-16": "A writer waits for its lock up to a limit (30 s by default), backs off with jitter "
    "and then says who is in the way; a stale lock is reported, not removed.",
    "S1-17": "Saving a version that isn't greater than the stored one is refused with both "
    "numbers, equal ones included.",
    "S1-18": "Loading a missing state gives none; loading a saved one gives back every field.",
    "S1-19": "Bad JSON or an unknown schema version is a described error, never a crash and never "
    "an empty state.",
    "S1-20": "A person can read the state file: indented, ISO times, names instead of numbers.",
    "S1-21": "The JSON Schema of a state is published, and files are checked against it when "
    "written and when read.",
    "S1-22": "A handoff is prepared for a task, a target and a phase as a command, and received "
    "from that command as a validated full state.",
    "S1-23": "The command holds task, target, phase, state delta, summary and state file.",
    "S1-24": "The state delta holds the real changes and their counts: applied to the old state "
    "it gives the new one.",
    "S1-25": "A handoff appends artifacts and decisions, replaces blocking issues, keeps warnings "
    "and gates and raises the version by one; an unknown task is a ValueError.",
    "S1-26": "An artifact named again updates its entry, and its former hash stays in the history.",
    "S1-27": "A task can be created, and gate results and warnings can be recorded.",
    "S1-28": "An incomplete handoff (missing fields, a decision without rationale, an artifact "
    "that isn't on disk) is refused with every reason.",
    "S1-29": "A change of phase needs the artifacts configured for it and is refused without them.",
    "S1-30": "An issue that needs a person stops the handoff until an approval records who and "
    "when.",
    "S1-31": "Everything recorded is there after the process starts again.",
    "S1-32": "Several processes writing to one task corrupt nothing and lose no update.",
    "S1-33": "The difference between the states before and after a handoff shows that nothing was "
    "lost.",
    "S1-34": "Every handoff is in an append-only history, and any past version can be shown.",
    "S1-35": "Settings bound the size of a state; beyond it old detail moves to an archive file "
    "and a reference stays.",
    "S1-36": "A summary carries the number of the version it was made from, so a stale one is "
    "recognised.",
    "S1-38": "A task names inputs, outputs, testable criteria, a time limit and dependencies; a "
    "cycle of dependencies is refused.",
}

HANDOFF_NOTE = {
    "S3-1": "The handoff section of a task file is read as YAML, fenced or plain; the rest of the "
    "file, other fences included, is left alone.",
    "S3-2": "An outcome is required: completed, partial, failed or blocked.",
    "S3-3": "A created file has path, purpose and lines.",
    "S3-4": "A modified file has path, lines, description and a change type of add, modify, delete "
    "or refactor.",
    "S3-5": "Where files changed, at least one of the two file lists names some.",
    "S3-6": "A pattern has pattern, location and applies_to, and gets a unique, stable id if it "
    "has none.",
    "S3-7": "A gotcha has issue, discovered_in, mitigation and a severity of high, medium or low, "
    "and gets an id if it has none.",
    "S3-8": "A dependency for the next task has file and reason.",
    "S3-9": "An open question has question, context, recommendation and whether it blocks.",
    "S3-10": "A suggested next step has step, depends_on and a priority of high, medium or low.",
    "S3-11": "A blocker has blocker, impact, suggested_resolution and blocking_tasks.",
    "S3-12": "A partial outcome needs blockers and suggested next steps.",
    "S3-13": "A failed outcome needs blockers, each with a suggested resolution.",
    "S3-14": "A blocked outcome needs blockers, each with the tasks it blocks.",
    "S3-15": "A completed outcome needs file lists only if files changed; alone it is a "
    "valid note.",
    "S3-16": "Paths are relative to the project: absolute ones, drive letters and escapes by `..` "
    "are refused.",
    "S3-17": "A line range is `all` or `N-M` with 1 <= N <= M; anything else is refused.",
    "S3-18": "A tag is lowercase and hyphenated; anything else is refused with a suggested form.",
    "S3-19": "Severities and priorities outside their lists are refused.",
    "S3-20": "Validation reports every problem at once, each with field path, level and code; "
    "unknown fields are warned about.",
    "S3-21": "Fields are required, recommended or optional, and a completeness score can be shown.",
    "S3-26": "A blocker is active and its named tasks are blocked until it is resolved; then they "
    "are released.",
    "S3-31": "Processing the same handoff twice changes nothing the second time.",
    "S3-32": "A task file template is produced with metadata, objective, criteria, context, log, "
    "handoff and completion time.",
    "S3-41": "Every fact says which task and which agent it came from.",
    "S3-42": "The note's schema has a version; an unknown one is reported.",
}

PROMISES: dict[str, str] = {
    **README,
    **DECISIONS_AND_CHECKSUMS,
    **STATE_OF_A_TASK,
    **HANDOFF_NOTE,
}
