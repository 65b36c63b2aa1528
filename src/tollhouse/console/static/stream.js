// Server-sent events in the response to a POST, which EventSource does not support.
import { send } from "./server.js";

/** The data of each event as it arrives; its member `type` is the event's name. Throws ApiError before the first. */
export async function* streamEvents(service, path, options) {
  const response = await send(service, path, { ...options, accept: "text/event-stream", method: "POST" });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
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
