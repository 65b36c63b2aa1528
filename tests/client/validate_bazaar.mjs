// Read challenges as JSON from standard input; write what the SDK's validators find wrong, and what a facilitator lists.
import { extractDiscoveryInfo, validateDiscoveryExtension, validateDiscoveryExtensionSpec } from "@x402/extensions/bazaar";

const chunks = [];
for await (const chunk of process.stdin) chunks.push(chunk);
const results = JSON.parse(Buffer.concat(chunks)).map((challenge) => {
  const extension = challenge.extensions?.bazaar;
  if (!extension) return { errors: ["no extension"] };
  const checks = [validateDiscoveryExtension(extension), validateDiscoveryExtensionSpec(extension)];
  const payment = { x402Version: 2, resource: challenge.resource, extensions: challenge.extensions, payload: {} };
  const listed = extractDiscoveryInfo({ ...payment, accepted: challenge.accepts[0] }, challenge.accepts[0]);
  return {
    errors: checks.flatMap((check) => check.errors ?? []),
    listed: listed && { url: listed.resourceUrl, method: listed.method, tool: listed.toolName },
  };
});
console.log(JSON.stringify(results));
