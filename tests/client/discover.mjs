// What a directory learns of an origin: its operations, their payment, what each 402 says, and the list of resources.
import { checkEndpointSchema, discoverOriginSchema, getOpenAPI, getWarningsForL3, getWarningsForOpenAPI } from "@agentcash/discovery";
import { HTTPFacilitatorClient } from "@x402/core/server";
import { withBazaar } from "@x402/extensions/bazaar";

const [origin, ...paths] = process.argv.slice(2);
const found = await discoverOriginSchema({ target: origin });
const openapi = await getOpenAPI(origin);
const checks = [];
for (const [place, path] of paths.entries()) {
  if (path === "probe") continue;
  const probe = place > paths.indexOf("probe");
  const checked = await checkEndpointSchema({ url: `${origin}${path}`, probe });
  const advisories = (checked.advisories ?? []).map((one) => ({
    method: one.method,
    authMode: one.authMode,
    hasSchemas: Boolean(one.inputSchema && one.outputSchema),
    amounts: (one.paymentOptions ?? []).map((option) => option.amount),
    warnings: getWarningsForL3(one).filter((warning) => warning.severity !== "info"),
  }));
  checks.push({ path, probe, advisories });
}
const { bazaar } = withBazaar(new HTTPFacilitatorClient({ url: origin })).extensions;
const pages = [await bazaar.listResources({ type: "http", limit: 3 }), await bazaar.listResources({ type: "http", limit: 3, offset: 3 })];
const others = await bazaar.listResources({ payTo: "0x0000000000000000000000000000000000000001" });
const tools = await bazaar.listResources({ type: "mcp", extensions: "bazaar" });
console.log(JSON.stringify({ found, warnings: getWarningsForOpenAPI(openapi.value), checks, pages, others, tools }));
