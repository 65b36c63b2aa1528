// Suggestions while typing in a table: values of its columns with their counts, and rows by their titles.
import { rooted } from "../dom.js";
import { counted } from "../format.js";
import { callOnce, query } from "../server.js";
import { heading } from "./cells.js";

const SHOWN = 8;

/** What a combobox needs. `table()` is the facts of the table; `filter(changes)` sets the filter of a value; a row is opened. */
export const suggestions = (table, filter) => ({
  label: "Values and rows",
  suggest: async (text) => {
    const { service, fields } = table();
    const { members } = await callOnce(service, `/api/suggest${query({ q: text, limit: SHOWN })}`);
    const labelOf = (name) => heading(fields.find((field) => field.name === name)).label;
    return members.suggestions.map((one) => ({ ...one, note: one.field ? `${labelOf(one.field)}, ${counted(one.count, "row")}` : "row" }));
  },
  choose: (one) => (one.field ? filter({ [one.field]: one.text }) : location.assign(`${rooted(table().page)}/row${query({ id: one.id })}`)),
});
