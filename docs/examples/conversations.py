import passdown
from passdown.relay.agents import AgentStates
from passdown.relay.conversations import Conversations, approve, ask, review


def model(messages: list[dict[str, str]]) -> str:
    """Replace this with a model call: it gets the whole context and returns a text."""
    said = [message["content"] for message in messages if message["role"] == "assistant"]
    if said:
        return f"APPROVED: I stand by '{said[0]}'"
    return "CHANGES: keep the session in a cookie"


def in_setup(agent: str) -> None:
    conversations.entered_setup(agent)


with passdown.open(".") as ws:
    for task in ("T-1", "T-2"):
        ws.create_task(task, title=f"Login, part {task[-1]}", agent="planner")
    states = AgentStates(ws, on_setup=in_setup)
    conversations = Conversations(ws, "architect", leases=states, role="You review plans and code.")

    states.lease("coder-1", "T-1")
    states.move("coder-1", "SETUP")
    print(review(conversations, "coder-1", "plan", "Store it in the page", model).content)
    print(ask(conversations, "coder-1", "A cookie, then?", model).message.content)
    print(approve(conversations, "coder-1", "code", "def login(): ...", model).verdict)

    states.release("coder-1", why="done")
    states.lease("coder-1", "T-2")
    talk = conversations.with_peer("coder-1")
    print([message.role for message in talk.messages()])
    print(len(talk.transcript()), "messages in the transcript")
