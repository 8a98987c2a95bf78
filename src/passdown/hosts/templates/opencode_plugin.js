// passdown:begin Written by `passdown init --host opencode`; `passdown init --remove` takes it away.
// Asks the command line and passes its answer on. Whatever fails here is left out, never thrown.
import { spawn } from "node:child_process"

const LIMIT_MS = 5000

function ask(event, cwd, data) {
  return new Promise((resolve) => {
    let text = ""
    let done = false
    const end = (answer) => {
      if (!done) {
        done = true
        clearTimeout(timer)
        resolve(answer)
      }
    }
    const timer = setTimeout(() => {
      try {
        child.kill("SIGKILL")
      } catch {}
      end({})
    }, LIMIT_MS)
    let child
    try {
      child = spawn("passdown", ["hook", "opencode", event], {
        cwd,
        stdio: ["pipe", "pipe", "ignore"],
        windowsHide: true,
      })
    } catch {
      return end({})
    }
    child.on("error", () => end({}))
    child.stdin.on("error", () => {})
    child.stdout.on("data", (part) => (text += part))
    child.on("close", () => {
      try {
        end(JSON.parse(text || "{}"))
      } catch {
        end({})
      }
    })
    child.stdin.end(JSON.stringify({ ...data, cwd }))
  })
}

const inputOf = ({ command, filePath, patchText, todos }) => ({ command, filePath, patchText, todos })

export const Passdown = async ({ directory, client }) => {
  const told = new Map()
  const pending = new Map()
  const context = async (event, session, more = {}) =>
    (await ask(event, directory, { session_id: session, ...more })).context
  const begin = async (session) => {
    if (told.has(session)) return
    told.set(session, "")
    told.set(session, (await context("session-start", session, { source: "startup" })) ?? "")
  }
  const tools = async (session) => {
    try {
      const { data } = await client.session.messages({ path: { id: session } })
      const parts = data.flatMap((message) => message.parts).filter((part) => part.type === "tool")
      return parts.map(({ tool, state }) => {
        const input = inputOf(state.input ?? {})
        return { tool, input, status: state.status, exit: state.metadata?.exit }
      })
    } catch {
      return []
    }
  }

  return {
    "experimental.chat.system.transform": async (input, output) => {
      const session = input?.sessionID ?? "opencode"
      await begin(session)
      for (const text of [told.get(session), pending.get(session)]) {
        if (text) output.system.push(text)
      }
    },
    "chat.message": async (input, output) => {
      const session = input?.sessionID ?? "opencode"
      await begin(session)
      const prompt = (output?.parts ?? []).map((part) => part?.text ?? "").join("\n")
      pending.set(session, (await context("prompt-submit", session, { prompt })) ?? "")
    },
    "experimental.session.compacting": async (input, output) => {
      const session = input?.sessionID ?? "opencode"
      const text = await context("pre-compact", session)
      if (text) output.context.push(text)
      told.delete(session)
    },
    event: async ({ event }) => {
      if (event?.type !== "session.idle") return
      const session = event.properties?.sessionID ?? "opencode"
      const data = { session_id: session, tools: await tools(session) }
      const { message } = await ask("stop", directory, data)
      if (!message) return
      try {
        await client.session.prompt({
          path: { id: session },
          body: { noReply: true, parts: [{ type: "text", text: message }] },
        })
      } catch {}
    },
  }
}
