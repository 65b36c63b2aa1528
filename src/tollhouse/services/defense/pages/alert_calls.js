// The operations under /api/alerts, with the visitor's key.
import { call, key } from "../server.js";

/** What the operation answers. Raises Refused. */
export const ask = async (method, path, body) => (await call("defense", `/api/alerts${path}`, { method, body, bearer: key.get() })).members;
