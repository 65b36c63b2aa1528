// An application of Express as its tutorial has them. It knows nothing of the server in front of it.
import express from "express";

const app = express();
const calls = { orders: 0 };
app.use(express.json());

app.get("/menu", (request, response) => {
  response.json({ dishes: ["soup", "bread"], vegan: request.query.vegan === "true" });
});
app.post("/orders", (request, response) => {
  calls.orders += 1;
  response.status(201).set("X-Cost-Usd", String(request.body.price ?? "")).json({ number: calls.orders, ...request.body });
});
app.get("/whoami", (request, response) => {
  response.json({
    key: request.get("x-api-key") ?? null,
    authorization: request.get("authorization") ?? null,
    caller: request.get("tollhouse-caller") ?? null,
    payment: request.get("payment-signature") ?? null,
  });
});
app.get("/photos/:name", (request, response) => {
  response.type("png").send(Buffer.alloc(2500, 7));
});
app.get("/compute", (request, response) => {
  response.set("X-Cost-Usd", String(request.query.cost)).json({ computed: true });
});
app.get("/admin/calls", (request, response) => response.json(calls));
app.get("/broken", () => {
  throw new Error("broken");
});

const behaviour = { runs: 0, status: 200 };
app.all(["/page", "/ask"], (request, response) => {
  behaviour.runs += 1;
  response.status(behaviour.status).json({ run: behaviour.runs });
});
app.get("/behaviour", (request, response) => response.json(behaviour));
app.put("/behaviour", (request, response) => response.json(Object.assign(behaviour, request.body)));

const server = app.listen(Number(process.env.PORT), "127.0.0.1", () => console.log(server.address().port));
