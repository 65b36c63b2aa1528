// Server-sent events of an answer that is asked for by POST, which EventSource cannot do.
import { send } from "./server.js";

/** What the server says as it says it: the data of each event, whose member `type` is its name. Raises Refused before the first. */
export async function* told(service, path, options) {
  const answer = await send(service, path, { ...options, accept: "text/event-stream", method: "POST" });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    const events = text.split("\n\n");
    text = events.pop();
    for (const event of events) yield dataOf(event);
  }
}

function dataOf(event) {
  const lines = event.split("\n").filter((line) => line.startsWith("data:"));
  return JSON.parse(lines.map((line) => line.slice(5).trimStart()).join("\n"));
}
