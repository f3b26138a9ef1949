// Memory for pi: butler @BUTLER@, home "@HOME@".
// Written by `butlers connect pi`, removed by `butlers disconnect pi`.
// It runs the hook program at events of a session. It never throws, and never waits for long.
import { spawn } from "node:child_process"

const [PROGRAM, ...ARGUMENTS]: string[] = @HOOK@
const PATIENCE_MS = 2500
const MOST_CHARACTERS = 3_000_000
const MOST_OUTPUT = 6_000

// Run the hook with an event on its input; return the context it prints, "" whatever goes wrong.
function hook(name: string, event: object): Promise<string> {
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

function contextOf(answer: string): string {
  try {
    return JSON.parse(answer).hookSpecificOutput.additionalContext ?? ""
  } catch {
    return ""
  }
}

const about = (ctx: any) => ({ session_id: ctx.sessionManager.getSessionId(), cwd: ctx.cwd })
const given = (input: any) => ({ ...input, file_path: input?.path })

function textOf(content: any): string {
  if (typeof content === "string") return content
  const parts = Array.isArray(content) ? content : []
  return parts.filter((part) => part.type === "text").map((part) => part.text).join("\n")
}

// The messages of a session, as the hook takes them; of a very long session the last.
// `added` has what memory added to the outputs of tools, which is taken out again.
function handedOver(entries: any[], added: Map<string, string>): object[] {
  const results = new Map<string, any>()
  for (const { message } of entries) if (message?.role === "toolResult") results.set(message.toolCallId, message)
  const call = ({ id, name, arguments: input }: any) => {
    const output = textOf(results.get(id)?.content).replace(added.get(id) ?? "", "").slice(0, MOST_OUTPUT)
    return { name, input: given(input), output, error: results.get(id)?.isError ? output || "failed" : undefined }
  }
  let messages = entries.flatMap(({ id, type, timestamp, message, customType, content }) => {
    if (type === "custom_message" && customType === "butlers")
      return [{ id, role: "memory", time: timestamp, text: textOf(content) }]
    if (message?.role !== "user" && message?.role !== "assistant") return []
    const parts = Array.isArray(message.content) ? message.content : []
    const calls = parts.filter((part: any) => part.type === "toolCall").map(call)
    return [{ id, role: message.role, time: timestamp, text: textOf(message.content), calls }]
  })
  while (messages.length > 1 && JSON.stringify(messages).length > MOST_CHARACTERS)
    messages = messages.slice(messages.length / 2)
  return messages
}

export default function (pi: any) {
  let opening = ""
  const added = new Map<string, string>()
  let storing = Promise.resolve("")

  function on(name: string, work: (event: any, ctx: any) => Promise<any>) {
    pi.on(name, async (event: any, ctx: any) => {
      try {
        return await work(event, ctx)
      } catch {}
    })
  }

  // One after the other: a session must not end before its last answer was handed over.
  async function hand(name: string, ctx: any): Promise<void> {
    const event = { ...about(ctx), messages: handedOver(ctx.sessionManager.getBranch(), added) }
    await (storing = storing.then(() => hook(name, event)))
  }

  on("session_start", async (event, ctx) => {
    opening = await hook("SessionStart", { ...about(ctx), source: event.reason ?? "startup" })
  })
  on("before_agent_start", async (event, ctx) => {
    const found = await hook("UserPromptSubmit", { ...about(ctx), prompt: event.prompt })
    const content = [opening, found].filter(Boolean).join("\n")
    opening = ""
    if (content) return { message: { customType: "butlers", content, display: false } }
  })
  on("tool_result", async (event, ctx) => {
    if (!event.isError) return
    const call = { tool_name: event.toolName, tool_input: given(event.input), error: textOf(event.content) }
    const text = await hook("PostToolUseFailure", { ...about(ctx), ...call })
    if (!text) return
    added.set(event.toolCallId, `\n${text}`)
    return { content: [...event.content, { type: "text", text }] }
  })
  on("agent_end", (_event, ctx) => hand("Stop", ctx))
  on("session_before_compact", (_event, ctx) => hand("PreCompact", ctx))
  on("session_shutdown", (_event, ctx) => hand("SessionEnd", ctx))
}
