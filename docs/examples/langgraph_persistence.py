from typing import Annotated, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

import passdown
from passdown.adapters.langgraph.checkpoints import LedgerSaver
from passdown.adapters.langgraph.store import RecallStore
from passdown.errors import Conflict


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


def ask(question: str) -> State:
    return {"messages": [HumanMessage(question)]}


def answer(state: State) -> State:
    question = state["messages"][-1].content
    if question == "Slowly, please":  # meanwhile another run is faster
        graph.invoke(ask("Me first"), thread)
    return {"messages": [AIMessage(f"Answer to {question!r}")]}


builder = StateGraph(State)
builder.add_node("answer", answer)
builder.add_edge(START, "answer")
builder.add_edge("answer", END)

with passdown.open(".") as ws:
    store = RecallStore(ws)
    graph = builder.compile(checkpointer=LedgerSaver(ws), store=store)
    thread = {"configurable": {"thread_id": "support/42"}}
    for question in ("Where is my order?", "And the invoice?"):
        graph.invoke(ask(question), thread)
    print(graph.get_state(thread).values["messages"][-1].content)

    # A run that started before another one ended would overwrite it: it is refused.
    try:
        graph.invoke(ask("Slowly, please"), thread, durability="sync")
    except Conflict as error:
        print(type(error).__name__)
    print(graph.get_state(thread).values["messages"][-1].content)

    # Continuing from an earlier checkpoint on purpose creates a branch.
    history = list(graph.get_state_history(thread))
    first = next(each for each in history if len(each.values["messages"]) == 2)
    branch = graph.invoke(ask("Cancel it"), first.config)
    print(len(history), "checkpoints, then a branch of", len(branch["messages"]), "messages")

    store.put(("customers", "ada"), "delivery", {"note": "Ring twice, the bell is quiet"})
    store.put(("customers", "ada"), "language", {"note": "Writes in French"})
    found = store.search(("customers",), query="How does one ring at her door?", limit=1)
    print(found[0].key, found[0].value)
    print("findings:", len(ws.verify().findings))
