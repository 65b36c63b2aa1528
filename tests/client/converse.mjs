// Ask an agent questions with the official A2A client: card, then messages; each argument is JSON with text and more.
import { ClientFactory } from "@a2a-js/sdk/client";

const [origin, ...questions] = process.argv.slice(2);
const client = await new ClientFactory().createFromUrl(origin);
const replies = [];
let contextId = "";
for (const question of questions.map((text) => JSON.parse(text))) {
  const message = {
    messageId: crypto.randomUUID(),
    role: 1,
    parts: [{ content: { $case: "text", value: question.text } }],
    contextId: question.follows ? contextId : "",
    metadata: question.skillId ? { skillId: question.skillId } : undefined,
  };
  try {
    const reply = await client.sendMessage({ message });
    contextId = reply.contextId ?? "";
    replies.push(reply);
  } catch (error) {
    replies.push({ error: error.message });
  }
}
console.log(JSON.stringify({ card: await client.getAgentCard(), replies }));
