// Memory for OpenCode: butler @BUTLER@, home "@HOME@".
// Written by `butlers connect opencode`, removed by `butlers disconnect opencode`.
// It runs the hook program at events of a session. It never throws, and never waits for long.
import { spawn } from "node:child_process"

const [PROGRAM, ...ARGUMENTS] = @HOOK@
const PATIENCE_MS = 2500
const MOST_CHARACTERS = 3_000_000
const MOST_OUTPUT = 6_000
const MEMORY = "# Memory Context"

// Run the hook with an event on its input; return the context it prints, "" whatever goes wrong.
function hook(name, event) {
  return new Promise((resolve) => {
    try {
      const child = spawn(PROGRAM, ARGUMENTS, { stdio: ["pipe", "pipe", "ignore"] })
      const timer = setTimeout(() => child.kill(), PATIENCE_MS)
      let answer = ""
      child.stdout.on("data", (piece) => (answer += piece))
      child.stdin.on("error", () => {})
      child.on("error", () => (clearTimeout(timer), resolve("")))
      child.on("close", () => (clearTimeout(timer), resolve(contextOf(answer))))
      child.stdin.end(JSON.stringify({ hook_event_name: name, ...event }))
    } catch {
      resolve("")
    }
  })
}

function contextOf(answer) {
  try {
    return JSON.parse(answer).hookSpecificOutput.additionalContext ?? ""
  } catch {
    return ""
  }
}

const safely = (work) => async (...given) => {
  try {
    return await work(...given)
  } catch {}
}

// `opencode run` puts a prompt of several words between quotation marks.
const typed = (text) => text.replace(/^"([^"]*)"\s*$/, "$1")
const isTyped = (part) => part.type === "text" && !part.synthetic && !part.ignored
const given = (input) => ({ ...input, file_path: input?.filePath })

function failureOf(output, metadata) {
  return metadata?.exit ? `Exit code ${metadata.exit}\n${output ?? ""}`.slice(0, MOST_OUTPUT) : undefined
}

// The messages of a session, as the hook takes them; of a very long session the last.
// `added` has what memory added to the outputs of tools, which is taken out again.
function handedOver(list, added) {
  let messages = list.flatMap(({ info, parts }) => {
    const told = parts.filter((part) => part.synthetic && part.text?.includes(MEMORY))
    const calls = parts
      .filter((part) => part.type === "tool" && part.state)
      .map(({ tool, state, callID }) => {
        const output = state.output?.replace(added.get(callID) ?? "", "").slice(0, MOST_OUTPUT)
        const error = state.error ?? failureOf(output, state.metadata)
        return { name: tool, input: given(state.input), output, error }
      })
    const text = parts.filter(isTyped).map((part) => typed(part.text)).join("\n")
    const time = info.time.created
    return [
      { id: info.id, role: info.role, time, text, calls },
      ...told.map((part) => ({ id: part.id, role: "memory", time, text: part.text })),
    ]
  })
  while (messages.length > 1 && JSON.stringify(messages).length > MOST_CHARACTERS)
    messages = messages.slice(messages.length / 2)
  return messages
}

export const Butlers = async ({ client, directory }) => {
  const subagents = new Set()
  const sessions = new Map() // the messages of each session that was prompted here
  const known = new Map() // what is known about a call that is under way
  const added = new Map()
  let storing = Promise.resolve()
  const about = (id) => ({ session_id: id, cwd: directory })

  async function store(id) {
    const { data } = await client.session.messages({ path: { id } })
    sessions.set(id, handedOver(data, added))
    await hook("Stop", { ...about(id), messages: sessions.get(id) })
  }

  return {
    "chat.message": safely(async (input, output) => {
      const id = input.sessionID
      const first = output.parts.find(isTyped)
      if (!first || subagents.has(id)) return
      const prompt = output.parts.filter(isTyped).map((part) => typed(part.text)).join("\n")
      const contexts = []
      if (!sessions.has(id)) contexts.push(await hook("SessionStart", { ...about(id), source: "startup" }))
      if (!sessions.has(id)) sessions.set(id, undefined)
      contexts.push(await hook("UserPromptSubmit", { ...about(id), prompt }))
      const text = contexts.filter(Boolean).join("\n")
      if (text) output.parts.push({ ...first, id: `${first.id}m`, text, synthetic: true })
    }),
    event: safely(async ({ event: { type, properties } }) => {
      if (type === "session.created" && properties.info.parentID) subagents.add(properties.info.id)
      if (type === "session.idle" && sessions.has(properties.sessionID))
        await (storing = safely(store)(properties.sessionID))
    }),
    "tool.execute.before": safely(async ({ tool, sessionID, callID }, { args }) => {
      if (!args?.command && !args?.filePath) return
      const event = { ...about(sessionID), tool_name: tool, tool_input: given(args) }
      const text = await hook("PreToolUse", event)
      known.set(callID, { event, text })
    }),
    "tool.execute.after": safely(async ({ callID }, output) => {
      const call = known.get(callID)
      known.delete(callID)
      if (!call) return
      const error = failureOf(output.output, output.metadata)
      const fix = error ? await hook("PostToolUseFailure", { ...call.event, error }) : ""
      const text = [call.text, fix].filter(Boolean).join("\n")
      if (!text) return
      added.set(callID, `\n\n${text}`)
      output.output = `${output.output ?? ""}\n\n${text}`
    }),
    dispose: safely(async () => {
      await storing
      const stored = [...sessions].filter(([, messages]) => messages)
      await Promise.all(stored.map(([id, messages]) => hook("SessionEnd", { ...about(id), messages })))
    }),
  }
}
