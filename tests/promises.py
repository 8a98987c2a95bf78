"""What Passdown promises: one id, one sentence. `test_promises.py` ties each row to a test.

`P-n` are the promises of the README. The others are the finer rows behind them: S0 for decisions,
contexts, checksums and memory, S1 for the state of a task, S2 for switches of agents and rules, S3
for the handoff note and what the next task gets from it, S4 for agents that run, talk and share
knowledge, S8 for stores that many machines share, M for agents that are served over MCP, work in
several worktrees and on several machines, H for the hosts of coding agents: their settings, hooks
and plugins.
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
    "P-9": "The state file never disagrees with the ledger without saying so.",
    "P-10": "A brief is never over its budget, cuts no item in the middle, shows with a larger "
    "budget all that it showed with a smaller one, and says what it leaves out and how to get it.",
    "P-11": "What an agent was told is on record: when, from which version, and what kept the rest "
    "out.",
    "P-12": "A context holds one profile, whatever the number of switches.",
    "P-13": "A search gives as many answers as were asked for, whenever so many pass its filters, "
    "and nothing that doesn't.",
    "P-14": "Nothing waits for vectors: a handoff never does, and what has none yet is found by "
    "its words.",
    "P-15": "A run that is killed goes on where it was, in any process, and each leg is handed off "
    "once.",
    "P-16": "An agent that never ends, floods, exits or answers rubbish doesn't take its run with "
    "it: the relay goes on or stops as its file says, with the evidence.",
    "P-17": "A ledger that has lost history is found out by its state files: nothing that shows "
    "it is overwritten, every read of the task says so, and it is written to again only after a "
    "person's recorded decision.",
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
    "S0-38": "What a receiver declares that it needs, by file, decision topic or gate, and doesn't "
    "get is a warning that says who needs what.",
    "S0-35": "Sources and tests are fully annotated and pass the strict type check, which every "
    "change has to pass; logs are structured.",
}

STATE_OF_A_TASK = {
    "C-1": "A workspace's settings name its phases, their order and the one that completes a "
    "task; every interface follows them, and what was recorded keeps its meaning when they change.",
    "C-2": "A bundle whose tasks are in phases that a workspace doesn't have is imported, with a "
    "warning that names them.",
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
    "S1-9": "A summary is never longer than its budget, for any content and by any counter; whole "
    "lines go, the state file's last.",
    "S1-10": "A summary has task and title, phases, file count and types, the last two decisions, "
    "blockers, gates and the state file.",
    "S1-11": "The same state gives the same summary, and open issues below blocker are mentioned.",
    "S1-12": "Fifty files and twenty decisions take less than 2,000 characters.",
    "S1-13": "A compacted context has at most 2,000 characters: the last five live decisions with "
    "reasons cut at 100 characters, the older ones counted, every cut marked.",
    "S1-14": "Compaction is due from a share of the window (25 % unless set otherwise), long "
    "before it is full, and whenever a number can't be trusted.",
    "S1-15": "Saving a state file is atomic and durable: a failure or a kill leaves the old file "
    "or the new one, whole, and a failure leaves no temporary file.",
    "S1-16": "A writer waits for the lock of its task (SQLite: that of the store, which has one "
    "writer) up to a limit, 30 s by default, backs off with jitter and then says who is in the "
    "way; a stale lock is reported, not removed.",
    "S1-17": "Saving a version that isn't greater than the stored one is refused with both "
    "numbers, equal ones included.",
    "S1-18": "Loading a missing state gives none; loading a saved one gives back every field.",
    "S1-19": "Bad JSON or an unknown schema version is a described error, never a crash and never "
    "an empty state.",
    "S1-20": "A person can read the state file: indented, ISO times, names instead of numbers.",
    "S1-21": "The JSON Schema of a state is published, and files are checked against it when "
    "written and when read.",
    "S1-22": "A handoff is prepared for a task, a target and a phase as a command with what it "
    "would change; nothing is recorded until it is handed off, which is refused once the task has "
    "moved on. It is received from that command as a validated full state.",
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
    "S1-37": "The example agent decides from the summary, loads the full state when it needs it, "
    "and hands on to QA.",
    "S1-38": "A task names inputs, outputs, testable criteria, a time limit and dependencies; a "
    "cycle of dependencies is refused.",
    "S1-39": "The last value of a fact's key holds, in states and briefs alike, and a change of it "
    "is said with the value before.",
    "S1-40": "A fact that is withdrawn, by null or by its status, is in no brief and no longer "
    "holds.",
    "S1-41": "What is still unknown is an open fact without a value, until it has one.",
}

SWITCHES_AND_RULES = {
    "S2-1": "An artifact and its template hold story, decisions, files modified, blockers and next "
    "action.",
    "S2-2": "An artifact is never over 500 tokens, for any input and any counter; what doesn't fit "
    "stays out whole.",
    "S2-3": "An artifact is YAML in a fixed order that reads back as the same data, and markdown "
    "with fixed sections.",
    "S2-4": "An artifact has version, ISO time, from, to, the five story fields, three lists and a "
    "next action of at most two sentences.",
    "S2-5": "The limits (500 tokens, 3 retained, 5 decisions, 10 files, 3 blockers) are named "
    "constants, and documented.",
    "S2-6": "When a limit cuts, the newest and most severe stay, the cut is counted, and the full "
    "record is named.",
    "S2-7": "After a switch, the old agent's persona, instructions and tools are gone from the "
    "context, and its artifact stands in their place.",
    "S2-8": "The new agent's profile is its whole file byte for byte, first in the context, with "
    "at most three summaries.",
    "S2-9": "Never more than one full persona is in a context, for any number of switches.",
    "S2-10": "With the fourth switch the oldest summary goes, at most three are shown, and a "
    "return to an earlier agent works.",
    "S2-11": "Known, inactive agents are called by `@agent` or a slash form; addresses, paths, "
    "code, decorators, quotes and escapes call nobody; an explicit call is possible as well.",
    "S2-12": "Where a switch is built in is documented: library call, prompt hook, instruction "
    "file.",
    "S2-13": "With switches turned off, a prompt comes out byte for byte as it went in.",
    "S2-14": "An artifact is stored under the runtime folder, which is made and kept out of "
    "version control on first use, under a name of from, to and time that is never taken twice.",
    "S2-15": "On the four published personas the last context saves more than half, and takes no "
    "more than 6,497 of 18,751 tokens by the same rule, with real artifacts; every step is "
    "reported.",
    "S2-16": "After a full run, story, path, status, task, branch, decisions, files, blockers and "
    "next action are all found or reachable.",
    "S2-17": "The whole suite is collected and runs; no test is switched off without a reason.",
    "S2-18": "Rules come from eight layers that a manifest and domain files define, within time "
    "limits, brackets and a remembered session; a faulty file or layer takes no other down.",
    "S2-19": "A change of the active agent, workflow or squad domain between two prompts triggers "
    "compaction, once.",
    "S2-20": "At a switch, constitution and global rules stay, the old agent's rules go and the "
    "new one's come.",
    "S2-21": "Brackets begin at 60, 40 and 25 percent with budgets of 800, 1,500, 2,000 and 2,500 "
    "tokens; bad numbers count as CRITICAL, which carries the handoff warning; a window must be "
    "above 0.",
    "S2-22": "Over budget, whole sections fall in the stated order, named and counted in the text; "
    "the context line, constitution, global and agent rules never fall.",
    "S2-23": "An agent's tools come from the registry; a missing, broken or partial one only gives "
    "warnings.",
    "S2-24": "Only the keep list is carried; persona, commands, dependencies, tools, settings and "
    "greetings are refused at any depth.",
    "S2-25": "Commands measure contexts and check artifacts, and their exit codes say the result.",
    "S2-26": "An artifact without story context or next action is reported as an error.",
    "S2-27": "A switch writes only under the runtime folder, and the location of its template can "
    "be chosen: the framework's or the data folder's.",
    "S2-28": "Artifacts outlive the process; one that nobody consumed is found by the next agent, "
    "and consumed once.",
    "S2-29": "A prompt that calls an agent switches by itself, and a save that fails never keeps "
    "the prompt back.",
    "S2-30": "Named files are compared with disk and git within a time limit; above 20 % "
    "difference a warning is due.",
    "S2-31": "A subagent gets the full persona and the task unchanged, and a kind of task has its "
    "executor.",
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
    "S3-21": "Fields are required, recommended or optional, and a detail score can be shown.",
    "S3-26": "A blocker is active and its named tasks are blocked until it is resolved; then they "
    "are released.",
    "S3-27": "What the next task gets: open reading, live patterns, gotchas above low, blocking "
    "questions, and next steps.",
    "S3-28": "The injected text has the task's id and name, a table of files and reasons, patterns "
    "with location, warnings with mitigation; empty sections are left out.",
    "S3-29": "Open next steps come with addresses, by priority and behind what they depend on.",
    "S3-30": "No stored text can add a row, a heading or an item to the injected text.",
    "S3-31": "Processing the same handoff twice changes nothing the second time.",
    "S3-32": "A task file template is produced with metadata, objective, criteria, context, log, "
    "handoff and completion time.",
    "S3-39": "Computed context is chosen by points within limits per complexity, and explains each "
    "entry and what was left out.",
    "S3-41": "Every fact says which task and which agent it came from.",
    "S3-42": "The note's schema has a version; an unknown one is reported.",
}

MEMORY = {
    "S0-13": "A stored decision has edges to what it is about, a memory that comes later too, and "
    "to the agent who made it.",
    "S0-14": "Asking for k decisions gives the k that fit best, of one agent or of all, whenever "
    "there are k, whatever else is stored.",
    "S0-15": "Search understands other words for the same by vectors, offline by default, and with "
    "any embedder that it is given.",
    "S0-16": "A memory store is any class with the three async methods store_embedding, "
    "search_similar and store_relationship: it is accepted as one, and the static type check "
    "passes.",
    "S0-17": "A memory comes back with its key, content, a score from 0 to 1 and its metadata, and "
    "can't be changed.",
    "S0-18": "A memory store takes the place of a key, gives fewer than k where fewer are there, "
    "survives reopening, and keeps projects apart.",
    "S0-19": "An edge is stored once, is found by any of its parts, and what can be reached comes "
    "with the path that leads there.",
    "S0-20": "Writers at the same time lose no edge; a damaged file is kept aside and reported, "
    "never overwritten.",
    "S0-21": "What fails for the moment is tried again three times and logged; what fails for good "
    "names the operation and its cause, and harms nothing.",
}

LESSONS = {
    "S3-22": "Each file that a handoff brings is in the journal's context map, once, as it was "
    "left last.",
    "S3-23": "Each pattern is a node that is linked to its task and filed under what it applies "
    "to.",
    "S3-24": "Each gotcha is a node that is linked to its task and keeps its severity.",
    "S3-25": "High gotchas are in the list that every task reads, each once.",
    "S3-33": "A freeform note gives files, gotchas, patterns, next steps and questions by its "
    "cues, and decisions with their reasons and alternatives.",
    "S3-34": "What is unclear in a note gives a prompt with the note and the schema, which a "
    "callback may answer.",
    "S3-35": "A migrated note is checked, then its file is updated in place on request with the "
    "original text kept; a second run does nothing.",
    "S3-43": "A migration says how many items it keeps, and changes nothing where the file would "
    "become too large to be read again.",
    "S3-44": "Of imports of one source that run at once, each entry is taken once, and nothing is "
    "refused for it.",
    "S3-45": "What a handoff wants checked is shown to its receiver, and nothing of it runs until "
    "somebody asks for it, never on a server.",
    "S3-46": "The result of a check is recorded with who made it, and the next brief shows it; one "
    "that failed doesn't end with a handoff before its receipt and the brief behind it name it.",
    "S3-47": "A brief says of a completed handoff whether it is proven, with evidence, or claimed.",
    "S3-48": "An imported ADR makes no task, and is in the briefs of tasks whose files it names, "
    "before others.",
    "S3-36": "How well notes are read is measured on real ones.",
    "S3-37": "All tasks that found patterns about a tag can be asked for.",
    "S3-38": "The graph has typed nodes with summaries of at most 100 characters, is asked by "
    "tags, best overlap first, and walked to a depth.",
}

RELAY = {
    "C-3": "A recorded leg can be taken again by another agent or runner, from the records and the "
    "request that the first had, in a ledger of its own; both handoffs are compared, and the "
    "original doesn't change.",
    "C-4": "A relay can be run from a chosen leg, and a leg's handoff has the typed fields that "
    "its file names, or goes back to its agent.",
    "S0-36": "A run is listed, shown and resumed with every field; a missing or damaged one is "
    "named clearly.",
    "S0-37": "A handoff takes under five seconds; duration, bytes and counts are recorded with "
    "each handoff, and tokens too with each leg of a relay.",
    "S3-40": "Partial work is queued again at most three times.",
    "S4-1": "Each agent has a context of its own with each peer, and sees nothing of the others.",
    "S4-2": "A conversation is found or begun once, however many threads or processes ask for it "
    "at the same moment.",
    "S4-3": "A reset empties the context and sets a new system message.",
    "S4-4": "All requests of a task go into one context, and each carries the earlier reviews; "
    "in a relay too, for each agent, peer and task.",
    "S4-5": "With a new task nothing of the old one is in the context.",
    "S4-6": "A peer without a task keeps its context.",
    "S4-7": "Entering SETUP empties the context.",
    "S4-8": "A request under another lease empties the context first.",
    "S4-9": "A context can be emptied on request.",
    "S4-10": "A context past its hours is emptied.",
    "S4-11": "All four ways to reset lead to one place, each of them is wired, may be repeated, "
    "and takes the task from the lease and not from the message.",
    "S4-12": "A system message that can't be made doesn't keep the old context, twice in a row "
    "neither.",
    "S4-13": "The system message names agent, peer, task, specification, knowledge, role and "
    "rules, and is made once for a lease.",
    "S4-14": "A request is a user message with the request alone, from a template that a folder "
    "may replace and whose values are never read as templates.",
    "S4-15": "Every handler uses its sender's context, and a missing sender is an error.",
    "S4-16": "A context always fits its window, with system message, last exchange and tool pairs "
    "intact and the transcript whole, or it is refused with what it takes.",
    "S4-17": "One summary stands for what was left out, the caller's before our own, and the whole "
    "still fits.",
    "S4-18": "Parallel use loses no message, and requests of one peer in a process come one by "
    "one.",
    "S4-19": "A message of type KNOWLEDGE_UPDATE brings entries, a file path and an action, append "
    "or replace, in a lane apart from the others; any other action is refused.",
    "S4-20": "Express work is carried out by a coder that is WAITING, which goes over SETUP to "
    "CODING; while all of its coders are busy, it waits. Other work needs PLANNING, and an illegal "
    "step is refused with the legal ones and changes nothing.",
    "S4-21": "SETUP recognises a knowledge update and prepares its file alone.",
    "S4-22": "CODING writes the file, commits it on a branch of its own and opens a pull request, "
    "without touching the user's branch, index or files.",
    "S4-23": "A full lane makes the sender wait or tells it so; nothing is dropped.",
    "S4-24": "Hot fixes, emergency patches, direct file work and changes started by the architect "
    "take the same way, and a new kind is one row.",
    "S4-25": "An express item that fails three times becomes a full task with its reason, its "
    "content and the evidence, once.",
    "S4-26": "Every agent has knowledge_add, a tool with one required object and a JSON schema; it "
    "ends no turn and answers a bad entry with all its problems.",
    "S4-27": "An entry of knowledge is in the ledger and in its agent's buffer before the tool "
    "answers.",
    "S4-28": "When a run, a specification or a task is completed, everything that waits comes to "
    "the knowledge file in one batch, once; a kill before that loses nothing.",
    "S4-32": "Contexts can be shared by all peers, parted for chosen pairs, or parted for all.",
    "S4-33": "Conversations add records and change neither schema nor tasks.",
    "S4-34": "A scripted reviewer doesn't contradict its first answer.",
    "S4-35": "The size of a context is bounded by its task and doesn't grow over many.",
    "S4-37": "What conversation handling costs is measured beside bare commits: milliseconds for "
    "each request, and their share of the whole.",
    "S4-38": "A thousand changes of task over eight peers leave no word of one task in another's "
    "context.",
    "S4-39": "Every move of an agent, and every refused one, is recorded and logged with its "
    "reason.",
    "S4-40": "A conversation is restored equal from its document, and from the ledger in another "
    "process.",
    "S4-41": "The answer to a budget review leads on, to a new plan, to a person or to the end, "
    "and its guidance is told to the agent.",
    "S4-42": "Switching, preservation, reset, knowledge and the express lane are tested together "
    "from end to end.",
}

SHARED_KNOWLEDGE = {
    "S4-29": "Updates of knowledge are merged when they are brought to the file: one node for one "
    "id, and conflicts are reported.",
    "S4-30": "A knowledge file reads back equal, keeps its order, and names everything that is "
    "wrong with it.",
    "S4-31": "A knowledge pack is the part of the graph that a task's words find, within nodes and "
    "tokens.",
    "S4-36": "What one story decided is found in the next.",
}

STORES = {
    "S8-1": "SQLite and PostgreSQL keep the same promises: one suite, one model, the same rows and "
    "the same answers in the same order.",
    "S8-2": "What PostgreSQL has acknowledged survives a killed server and a broken connection; an "
    "answer that was lost is told as unknown, and the same key repeats it safely.",
    "S8-3": "A store is copied into another as it is, verified, and an interrupted copy goes on.",
    "S8-4": "The password in a store's address is never printed.",
    "S8-5": "Workspaces in one database are kept apart, and each is brought up to date as a whole "
    "while others write; a client that is too old for it is told before it writes.",
    "S8-6": "A database that may lose what it acknowledges, lets records be changed or has other "
    "tables is refused with what to do.",
    "S8-7": "Transactions over several tasks show no anomaly on either store, and the checker that "
    "says so finds each of three planted bugs.",
    "S8-8": "A handoff takes a handful of round trips to a database elsewhere, however many rows "
    "it brings.",
    "S8-9": "A folder is pointed to another store only when that has all its records, or by an "
    "option that leaves them; the doctor names a ledger that is left.",
}

SERVER = {
    "W-1": "A server lets nobody in under another name, from another site, without a token that "
    "holds, or beyond its limits; that is settled before anything else is looked at.",
    "W-2": "A token allows what it was made for: an agent writes as itself whatever a request "
    "claims, only people answer gates, and every record says which token it came with.",
    "W-3": "The version is the ETag: of two who write from the same version one is told, with both "
    "numbers; the same idempotency key gives the same record.",
    "W-4": "Every error is a problem document with every problem at once, and no request makes the "
    "server fail.",
    "W-5": "Events come in the ledger's order from any place in it; who comes back misses none and "
    "gets none twice.",
    "W-6": "Asked to stop, a server ends its streams and finishes what it has begun.",
    "W-7": "A workspace behind a server has the same methods with the same meaning.",
    "W-8": "MCP over HTTP serves each caller as the holder of its token, and keeps answers apart.",
    "W-9": "A token is shown once, kept as a digest, listed, revoked and expires; no log and no "
    "file of the server holds one but the file of its owner.",
    "W-10": "A workspace behind a server takes the parameters and gives the values of one that is "
    "open here; the few methods that need one machine's files or functions say what to do instead.",
    "W-11": "Profiles, bundles, backups and the repository are those of the machine that asks: a "
    "switch, an export, an import and a backup go by its files, whatever the server has.",
    "W-12": "Only a person with the right to may copy the store, take a bundle in or rebuild it "
    "over HTTP; runs are answered by people, and an express item bears the token's name.",
    "W-13": "A server on PostgreSQL answers the same scenarios and streams the same events.",
    "W-14": "The command line does over HTTP what it does beside the store.",
    "W-15": "The files that a handoff or a decision names are those of the machine that asks: "
    "hashed there by the same rules, told to the server, and checked by it.",
    "W-16": "A client whose server is broken, is another program or means harm is told so: no "
    "answer is waited for, kept or unpacked without end, no list goes on for ever, and no redirect "
    "gets the token.",
    "W-17": "A backup through a server has its name once it was verified; one that was cut off, "
    "foreign or damaged never has it.",
    "W-18": "A body that is too large is answered with the limit and what to do, however much of "
    "it was still to come.",
    "W-19": "A token has its share and no more: of reads at work, of heavy ones, of open requests, "
    "of answers that wait to be taken and of lines in the log; whatever it sends, others are "
    "served, and so are the questions whether the server lives and whose token this is.",
    "W-20": "However much is wrong with an input, a hundred problems are told, errors first, and "
    "the others counted; no input that is allowed takes time that grows faster than its length.",
    "W-21": "A browser signs in with a link from the terminal, once and within a minute; what it "
    "writes is refused unless a page of this server sent it, and its session ends with its token.",
    "W-22": "The dashboard lists what a person must act on and has a key for each; what a token "
    "may not do isn't offered, and is refused.",
    "W-23": "The dashboard shows what each agent was given and what was left out, stays current "
    "without a reload, and has a key for everything; every view has its JSON.",
    "W-24": "Stored text is text on every page: it runs nothing and loads nothing, breaks no "
    "layout from a phone's width on, and every page can be used with a screen reader.",
    "O-1": "Where OpenTelemetry is set up, each request, tool call and leg of a relay is a span "
    "of its caller's trace, with what it had the workspace do below it and never a word that was "
    "written; otherwise nothing is loaded for it.",
    "O-2": "Spans of legs and of memory operations have the names of OpenTelemetry's conventions "
    "for generative AI, and a handoff keeps the id of the trace that it was recorded in.",
}

FRAMEWORKS = {
    "C-5": "Over A2A a handoff is a data part that survives the protocol whole, is recorded on "
    "both sides once, and waits as input-required for what only a person may answer.",
    "C-6": "In AG-UI a gate is an interrupt of its run, and the answer that resumes it is recorded "
    "with its person, once.",
    "F-20": "In every framework, a handoff with problems goes back to its model with all of them, "
    "and nothing is recorded.",
    "F-21": "In every framework, a receiver's model gets the brief in place of what came before "
    "the handoff, and its own calls stay with their results.",
    "F-22": "In every framework, what the brief replaced can be read word for word, what the "
    "receiver did reaches the agent it hands back to, and the framework's session keeps all.",
    "F-23": "In every framework, a handoff that a person has to approve pauses the run by the "
    "framework's own means, and goes on after the approval.",
    "F-24": "Conversations of Pydantic AI are kept once, whole, and a stale writer gets a "
    "conflict.",
    "F-28": "With Passdown, a whole run costs fewer tokens than with a framework that hands the "
    "history on, and its receiver can reach every fact.",
    "F-27": "Histories of the Agent Framework in the ledger give back every message of a session.",
    "F-26": "Sessions of Google ADK in the ledger keep every event and the state of session, user "
    "and app; its memory finds what agents recorded.",
    "F-25": "Sessions of the Claude Agent SDK in the ledger pass its conformance suite for stores.",
    "F-1": "Without a framework, an agent's tools hand off with a checked payload, give the brief "
    "in place of the history, and read the rest on demand, in the forms that models take.",
    "F-2": "Graphs, nodes, checkpoints, stores, sessions and handoffs of frameworks work alike in "
    "SQLite, in PostgreSQL and through a server, or are refused by name when they are made.",
    "F-3": "A graph is built as LangGraph's own, serves many tasks, records several targets as "
    "several and completes its task at its end.",
    "F-5": "On the Agents SDK a whole run costs fewer tokens than by its default, with every "
    "definition of a tool, from three agents with one tool call each on.",
    "F-4": "What a worker comes back to its supervisor with is recorded, and the next agent's "
    "brief has it.",
}

STATE_IN_GRAPHS = {
    "S0-1": "Every field that one agent returns is there for the next, in the typed state.",
    "S0-2": "A state has messages, the current agent, a handoff context or none, decisions, and "
    "fields of one's own, each typed and named in snake_case.",
    "S0-3": "Messages of several agents add up in order; a list that an agent returns never takes "
    "the place of what was there.",
    "S0-4": "The reducer of messages serves as the annotation of a LangGraph state, and works "
    "without LangGraph.",
    "S0-5": "A message is made with its agent's name, and whatever else is said of it.",
    "S0-8": "Handing on gives an update with the context and the next agent; the state that was "
    "given stays as it is.",
    "S0-9": "What a handoff context isn't given, it gathers: the current agent's decisions and the "
    "addresses of what is to be looked up.",
    "S0-10": "The receiver finds the context in its state and reads who handed on, to whom, what "
    "was decided and when.",
    "S0-27": "Checksums are taken before and verified after every handoff by the graph itself.",
    "S0-28": "At the end of a chain of agents every field, message, decision and reference that "
    "went in is there, byte by byte.",
    "S0-29": "Decisions add up in the live state, merged by the graph's own runner.",
    "S0-30": "A wrapped node stays sync or async, its output is kept, the context is added when it "
    "leaves, and what is no decision is skipped with a warning.",
    "S0-31": "Edges have named conditions; each transition is recorded, and the record replays to "
    "the same state.",
    "S0-32": "A graph is built of wrapped nodes alone; one that isn't stops it from being built.",
    "S0-33": "Nothing is read or written in an event loop's own thread, and a shared state is "
    "guarded by a lock.",
    "S0-39": "Contexts, messages, decisions, integrity and chains of two and more agents are "
    "tested, with and without a framework.",
    "S0-40": "A superseded decision leads to all that hold in its place, however long the chain; a "
    "fork is warned of when it is written, and told by the audit until it is joined.",
    "S0-41": "A store that can't be written, on a read-only mount or of another user, is read all "
    "the same, and a write says what it needs.",
}

SERVING = {
    "M-1": "Ten tools cover a day of work over MCP, in the handshake of 2025 and in the "
    "self-describing requests of 2026 alike.",
    "M-2": "The definitions of all tools have at most 1,600 tokens, in a fixed order, with all "
    "four hints on each.",
    "M-3": "A call that can't be carried out says everything that is wrong and what to do, and "
    "changes nothing.",
    "M-4": "The server's first answers come before any store is looked for, and its standard "
    "output is the protocol alone.",
    "M-5": "Lines that are no message, and arguments of any size, get a short answer, and the "
    "server goes on.",
    "M-6": "A server ends with its client or a signal, and leaves neither a process nor half a "
    "write behind.",
    "M-7": "A client that isn't ours, the protocol's inspector, lists and calls every tool.",
    "M-8": "Agents in several worktrees of one repository share its store, each with the files of "
    "its own worktree, and the store outlives them.",
    "M-9": "One file takes a task to another machine, with its failed attempts, where git stood "
    "and on demand the uncommitted changes; an altered one is refused whole, and a brief there "
    "says what differs.",
    "M-10": "A bundle that unpacks to far more than its size is refused with how much is allowed "
    "and how to allow it; one that is let in is never held in memory.",
    "M-11": "Who took a bundle in, when, through which door and from which bundle is recorded and "
    "shown with each record that it brought; the door that such a record names is shown as a "
    "claim.",
    "M-12": "A person answers a gate in their host, in clients of 2025 and 2026 alike; gates and "
    "requests to agents can run as tasks of the protocol. A host that has neither gets a text that "
    "says what to do.",
}

HOSTS = {
    "H-1": "One command sets a project's hosts up and one restores every file to the byte, however "
    "odd its settings are; what would change can be seen before.",
    "H-2": "A session that starts, is cleared or was compacted is told its brief, in the "
    "one form that its host reads.",
    "H-3": "What a hook tells is never longer than its host takes: 10,000 characters, or 2,500 "
    "tokens for Codex, whatever it is made of.",
    "H-4": "A prompt that calls an agent brings that agent's context, and one that rules bear on "
    "brings those.",
    "H-5": "A stop without a handoff on an open task asks for one, once in a session.",
    "H-6": "A subagent gets its brief, and what it did and said is kept when it ends.",
    "H-7": "Changed files, commands with how they ended and todos are captured without a model, as "
    "a draft that its agent completes.",
    "H-8": "A hook that fails or is slow never holds an agent up: it ends in time with exit code "
    "0, says nothing that confuses its host, and leaves a line in the log.",
    "H-9": "Two hundred hooks from eight processes at once: none fails, and no process is left.",
    "H-10": "While agents work, nothing is written in `.git`, `.codex` or `.agents`.",
    "H-11": "The plugins of Claude Code and Codex come from one source, the same every time, with "
    "a skill that has only the fields of the open format.",
    "H-12": "The doctor says which hosts are here, how they are set up, when each hook last ran "
    "and what it told, how long the server takes to start, and what to do.",
    "H-13": "A host that isn't ours sees the server as it was set up, is briefed, hands off and "
    "briefs the next session, with a scripted model and no network.",
    "H-14": "In a repository that means harm, hooks run no program that it names, write and remove "
    "nothing through its links, and leave no process behind.",
    "H-15": "Without any task a session is captured all the same: its stop offers a draft with a "
    "title from the first prompt, and recording it creates the task.",
    "H-16": "What a session did and didn't hand off is told to the next one, in whichever host, "
    "even if it was killed, and stays in the draft until it is handed off.",
    "H-17": "A compacted session gets the whole brief again, a resumed one only what changed.",
    "H-18": "After a session that reaches its limit in one host, a session in any other host knows "
    "what was done, decided and left, with nothing set up but `init`.",
    "H-19": "Ten tasks of a first day work as their page says, and a wrong turn is answered with "
    "the right way.",
}

PROMISES: dict[str, str] = {
    **SERVER,
    **README,
    **DECISIONS_AND_CHECKSUMS,
    **STATE_OF_A_TASK,
    **SWITCHES_AND_RULES,
    **HANDOFF_NOTE,
    **MEMORY,
    **LESSONS,
    **RELAY,
    **SHARED_KNOWLEDGE,
    **FRAMEWORKS,
    **STATE_IN_GRAPHS,
    **SERVING,
    **HOSTS,
    **STORES,
}
