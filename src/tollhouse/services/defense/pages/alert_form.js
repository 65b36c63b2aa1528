// The form of a rule: the metric, the condition and the endpoint.
import { CATEGORIES, SEVERITIES, brief } from "./feeds.js";
import { SIGNS, isBrief, isCounted, metricGroups } from "./alert_text.js";
import { el, fill } from "../dom.js";
import { callOnce } from "../server.js";
import { errorNotice } from "../format.js";

const BOUNDS = { window_hours: [1, 24, 24], cooldown_minutes: [1, 10_080, 60] };

const HINTS = {
  max_severity: "1 is low, 2 medium, 3 high, 4 critical.",
  spike: "3 is high, 5 is very unlikely to be chance. Windows of 6 hours or fewer have more history to compare with.",
  fatalities: "Several reports of one incident add up, as they do in the feed.",
  staleness_minutes: "Recorded data is never stale. A source that never responded counts from the creation of the rule.",
};

/** A form with the alert's values. `preview(rule)` shows a preview, `done(rule)` saves; both may throw ApiError. */
export function ruleForm(alert, { preview, submit, done, cancel }) {
  const given = alert.filters || {};
  const metric = el("select", { id: "metric", onchange: arrange });
  const fields = {
    name: el("input", { id: "name", required: true, maxlength: "100", value: alert.name || "", placeholder: "Fighting in Ethiopia" }),
    category: choice("category", CATEGORIES, given.category),
    country: el("input", { id: "country", maxlength: "100", value: given.country || "", placeholder: "any" }),
    severity_tier: choice("severity_tier", SEVERITIES, given.severity_tier),
    entity: el("input", { id: "entity", maxlength: "200", value: given.entity || "", placeholder: "any person, place, platform" }),
    source: choice("source", [], given.source),
    operator: el("select", { id: "operator" }, Object.entries(SIGNS).map(([value, text]) => el("option", { value, selected: value === (alert.operator || ">=") }, text))),
    threshold: el("input", { id: "threshold", type: "number", step: "any", required: true, value: alert.threshold ?? 10 }),
    window_hours: bounded("window_hours"),
    cooldown_minutes: bounded("cooldown_minutes"),
    url: el("input", { id: "url", type: "url", required: true, maxlength: "2000", value: alert.url || "", placeholder: "your webhook URL" }),
  };
  const filters = group("Filter events by", field("category", "Category"), field("country", "Country"), field("severity_tier", "Severity"), field("entity", "Entity named"));
  const source = group("Source", field("source", "Source"));
  const span = field("window_hours", "Window, hours");
  const hint = el("p", { class: "small dim", id: "hint" });
  const failed = el("div");
  const previewButton = el("button", { type: "button", class: "quiet", onclick: () => form.querySelector("#threshold").reportValidity() && preview(ruleNow(false)) }, "Preview over stored history");
  const form = el("form", { onsubmit: save, class: "rule" },
    field("name", "Name"),
    el("div", { class: "field" }, el("label", { for: "metric" }, "Metric"), metric), filters, source,
    group("Trigger when the value is", field("operator", "Comparison"), field("threshold", "Threshold"), span, field("cooldown_minutes", "Cooldown, minutes")), hint,
    field("url", "Your endpoint"),
    el("p", { class: "actions" }, el("button", {}, submit), previewButton, cancel && el("button", { type: "button", class: "quiet", onclick: cancel }, "Cancel")), failed);
  // A change of the rule, and not of the name or the endpoint, shows what it would have done.
  form.addEventListener("change", (event) => { if (!["name", "url"].includes(event.target.id) && fields.threshold.value !== "" && fields.threshold.checkValidity()) preview(ruleNow(false)); });
  showMetrics([]);
  loadChoices();
  return form;

  function field(name, text) {
    return el("div", { class: "field" }, el("label", { for: name }, text), fields[name]);
  }

  function choice(id, values, chosen) {
    return el("select", { id }, el("option", { value: "" }, "any"), values.map((value) => el("option", { value, selected: value === chosen }, value)));
  }

  function bounded(name) {
    const [min, max, usual] = BOUNDS[name];
    return el("input", { id: name, type: "number", min, max, step: 1, required: true, value: alert[name] ?? usual });
  }

  function showMetrics(areas) {
    const chosen = metric.value || alert.metric || "event_count";
    fill(metric, metricGroups(areas).map(([label, metrics]) => el("optgroup", { label },
      Object.entries(metrics).map(([value, text]) => el("option", { value, selected: value === chosen }, text)))));
    if (metric.value !== chosen) metric.append(el("option", { value: chosen, selected: true }, chosen));
    arrange();
  }

  /** Load the brief's areas and the sources' names. The form works without them. */
  async function loadChoices() {
    const [areas, health] = await Promise.allSettled([brief(), callOnce("defense", "/health")]);
    if (health.status === "fulfilled") fields.source.append(...(health.value.members.sources || []).map((one) => el("option", { value: one.name, selected: one.name === given.source }, one.name)));
    if (areas.status === "fulfilled") showMetrics(areas.value.capability_gaps.map((gap) => gap.area));
  }

  function arrange() {
    filters.hidden = !isCounted(metric.value);
    source.hidden = metric.value !== "staleness_minutes";
    span.hidden = !isCounted(metric.value);
    hint.textContent = HINTS[metric.value] || "";
  }

  function ruleNow(isWhole) {
    const names = isCounted(metric.value) ? ["category", "country", "severity_tier", "entity"] : metric.value === "staleness_minutes" ? ["source"] : [];
    const chosen = Object.fromEntries(names.map((name) => [name, fields[name].value.trim()]).filter(([, value]) => value));
    const rule = { metric: metric.value, filters: chosen, operator: fields.operator.value, threshold: Number(fields.threshold.value),
      window_hours: isBrief(metric.value) || span.hidden ? 24 : Number(fields.window_hours.value), cooldown_minutes: Number(fields.cooldown_minutes.value) };
    return isWhole ? { name: fields.name.value.trim(), ...rule, url: fields.url.value.trim() } : rule;
  }

  async function save(event) {
    event.preventDefault();
    fill(failed);
    try {
      await done(ruleNow(true));
    } catch (error) {
      if (!error.problem) throw error;
      fill(failed, errorNotice(error));
      point(error.problem.parameter);
    }
  }

  /** Focus the field that the server rejected. */
  function point(parameter) {
    const named = (parameter || "").split(".").at(-1);
    const wrong = named === "metric" ? metric : fields[named];
    if (wrong) wrong.focus();
  }
}

function group(legend, ...children) {
  return el("fieldset", {}, el("legend", {}, legend), el("div", { class: "pair-up" }, children));
}
