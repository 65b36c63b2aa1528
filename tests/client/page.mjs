// The official clients as a page of a shop bundles them: x402 of both versions, and MCP.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ExactEvmScheme } from "@x402/evm";
import { decodePaymentResponseHeader, wrapFetchWithPayment as wrapV2, x402Client } from "@x402/fetch";
import { privateKeyToAccount } from "viem/accounts";
import { createSigner, decodeXPaymentResponse, wrapFetchWithPayment as wrapV1 } from "x402-fetch";

window.payV1 = async ([url, key]) => {
  const answer = await wrapV1(fetch, await createSigner("base", key))(url);
  const settled = decodeXPaymentResponse(answer.headers.get("x-payment-response"));
  return { status: answer.status, body: await answer.json(), settled };
};

window.payV2 = async ([url, key]) => {
  const client = new x402Client();
  client.register("eip155:*", new ExactEvmScheme(privateKeyToAccount(key)));
  const answer = await wrapV2(fetch, client)(url);
  const settled = decodePaymentResponseHeader(answer.headers.get("payment-response"));
  return { status: answer.status, body: await answer.json(), settled };
};

window.callTool = async ([url, name, key]) => {
  const client = new Client({ name: "page", version: "1.0.0" });
  const headers = { Authorization: `Bearer ${key}` };
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
  const { tools } = await client.listTools();
  const result = await client.callTool({ name, arguments: { limit: 2 } });
  await client.close();
  return { tools: tools.map((tool) => tool.name), result };
};
