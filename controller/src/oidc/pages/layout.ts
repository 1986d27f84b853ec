/** What all pages share: the frame, the one style, and the headers that keep everything else out. */
import { createHash } from "node:crypto";
import type { EndpointAnswer } from "../../http/endpoints.ts";
import { type Insert, type Markup, markup } from "./markup.ts";

/** The only style of every page. `Content-Security-Policy` names its digest, so no other one counts. */
export const STYLE = `
:root { color-scheme: light dark; --text: #1c2127; --soft: #57616c; --ground: #eef1f4; --card: #fff; --line: #d3dae1; --field: #fff;
  --edge: #7d8995; --accent: #0b5cad; --over: #084a8d; --on: #fff; --panel: #f4f6f8; --wrong: #a3161b; --alarm: #fdeeee; --frame: #e8b4b6; }
@media (prefers-color-scheme: dark) { :root { --text: #e3e6e8; --soft: #9aa6b2; --ground: #101419; --card: #181d23; --line: #303943;
  --field: #11161b; --edge: #75818d; --accent: #6cb1f5; --over: #93c6fa; --on: #0b1a29; --panel: #20272f; --wrong: #ff9a9e; --alarm: #351a1d; --frame: #6d3438; } }
*, ::before, ::after { box-sizing: border-box; }
body { margin: 0; min-height: 100vh; display: grid; grid-template-columns: minmax(0, 26.5rem); align-content: center; justify-content: center;
  padding: 1.5rem 1rem; background: var(--ground); color: var(--text); font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif; }
main { background: var(--card); border: 1px solid var(--line); border-radius: 14px; padding: 2rem 2rem 1.75rem; overflow-wrap: anywhere;
  box-shadow: 0 1px 2px rgb(16 24 32 / 5%), 0 12px 32px -12px rgb(16 24 32 / 18%); }
.mark { display: block; width: 2.5rem; height: 2.5rem; margin-bottom: 1.25rem; }
.mark rect { fill: var(--accent); } .mark path { fill: none; stroke: var(--on); stroke-width: 3; stroke-linecap: round; stroke-linejoin: round; }
h1 { margin: 0; font-size: 1.5rem; line-height: 1.25; letter-spacing: -0.01em; }
h2 { margin: 0 0 .25rem; font-size: 1rem; }
p { margin: .75rem 0; } h1 + p { margin-top: .25rem; }
.soft, .note, footer { color: var(--soft); } .note { font-size: .875rem; } strong { font-weight: 600; color: var(--text); }
.request { margin: 1.25rem 0 0; padding: .75rem 1rem; background: var(--panel); border-radius: 9px; font-size: .875rem; color: var(--soft); }
.request p { margin: 0; } .request p + p { margin-top: .375rem; }
.problem { margin: 1.25rem 0 0; padding: .75rem 1rem; border: 1px solid var(--frame); border-radius: 9px; background: var(--alarm); color: var(--wrong); }
form { margin: 1.25rem 0 0; }
label { display: block; margin-bottom: .375rem; font-weight: 600; font-size: .9375rem; } .field { margin-bottom: 1rem; }
input { font: inherit; color: inherit; } .field input { display: block; width: 100%; padding: .625rem .75rem; background: var(--field); border: 1px solid var(--edge); border-radius: 9px; }
input.code { font-size: 1.25rem; letter-spacing: .2em; font-variant-numeric: tabular-nums; }
.check { display: grid; grid-template-columns: auto 1fr; gap: .625rem; align-items: start; font-weight: 400; margin-bottom: 1rem; }
.check input { width: 1.125rem; height: 1.125rem; margin: .1875rem 0 0; accent-color: var(--accent); }
button { display: block; width: 100%; min-height: 2.75rem; padding: .5rem 1rem; font: inherit; font-weight: 600; color: var(--on); background: var(--accent);
  border: 1px solid var(--accent); border-radius: 9px; cursor: pointer; }
button:hover { background: var(--over); border-color: var(--over); }
button.second { color: var(--text); background: transparent; border-color: var(--edge); } button.second:hover { background: var(--panel); }
a { color: var(--accent); text-underline-offset: .15em; }
a.button { display: block; margin: 1.25rem 0 0; padding: .5625rem 1rem; border-radius: 9px; background: var(--accent); color: var(--on); font-weight: 600; text-align: center; text-decoration: none; }
a.button:hover { background: var(--over); }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
.or { display: grid; grid-template-columns: 1fr auto 1fr; gap: .75rem; align-items: center; margin: 1.5rem 0 0; font-size: .875rem; color: var(--soft); }
.or::before, .or::after { content: ""; border-top: 1px solid var(--line); }
.others { margin: 1.5rem 0 0; padding-top: 1.25rem; border-top: 1px solid var(--line); font-size: .875rem; color: var(--soft); }
.others h2 { font-size: .875rem; color: var(--text); } .others p { margin: 0; } .others ul { margin: .375rem 0 0; padding-left: 1.125rem; }
details { margin: 1.25rem 0 0; } summary { color: var(--accent); cursor: pointer; border-radius: 4px; }
ol.steps { list-style: none; margin: 1.5rem 0 0; padding: 0; counter-reset: step; }
ol.steps > li { counter-increment: step; position: relative; padding: 0 0 1.5rem 2.5rem; } ol.steps > li:last-child { padding-bottom: 0; }
ol.steps > li::before { content: counter(step); position: absolute; left: 0; top: -.125rem; width: 1.75rem; height: 1.75rem; border-radius: 50%;
  background: var(--panel); border: 1px solid var(--line); font-size: .875rem; font-weight: 600; line-height: 1.625rem; text-align: center; }
ol.steps p { margin: .25rem 0 .75rem; } ol.steps form { margin: .75rem 0 0; }
.qr { display: block; max-width: 100%; height: auto; margin: 0 0 .75rem; border-radius: 9px; border: 1px solid var(--line); background: #fff; image-rendering: pixelated; }
code { font: .9375em/1.5 ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace; }
.secret span { display: inline-block; margin-right: .5em; }
.codes { display: grid; grid-template-columns: repeat(auto-fill, minmax(4.75rem, 1fr)); gap: .25rem .75rem; list-style: none; margin: 0; padding: .75rem 1rem; background: var(--panel); border-radius: 9px; }
footer { margin: 1.25rem 0 0; font-size: .8125rem; text-align: center; }
@media (max-width: 30rem) { main { padding: 1.5rem 1.25rem; } }
@media print { body { display: block; background: none; } main { border: 0; box-shadow: none; padding: 0; } form, .request { display: none; } }
`;

const STYLE_DIGEST = createHash("sha256").update(STYLE).digest("base64");

export interface PageParts {
  readonly status: number;
  readonly title: string;
  readonly body: Markup;
  /** Where forms may lead, besides to the controller itself; undefined for a page without forms. */
  readonly redirectOrigin?: string;
  /** Goes into the head of the page. */
  readonly head?: Markup;
}

/** A whole answer. `network` is the address by which the user knows the network. */
export function page(network: string, { status, title, body, redirectOrigin, head }: PageParts): EndpointAnswer {
  const text = markup`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>${title} · ${network}</title>${head}
`.text;
  // The style is a constant of this program, and quotes in it are no markup.
  const rest = markup`
</head>
<body>
<main>
<svg class="mark" viewBox="0 0 40 40" aria-hidden="true"><rect width="40" height="40" rx="10"/><path d="M11 30V18a9 9 0 0 1 18 0v12M16 24h11m-4-4 4 4-4 4"/></svg>
${body}
</main>
<footer>Sallyport</footer>
</body>
</html>
`.text;
  return {
    status,
    headers: securityHeaders(redirectOrigin),
    body: { type: "text/html; charset=utf-8", text: `${text}<style>${STYLE}</style>${rest}` },
  };
}

/** A list; nothing when it is empty. */
export function listOf<T>(items: readonly T[], item: (each: T) => Insert, name?: string): Markup | undefined {
  if (items.length === 0) return undefined;
  return markup`<ul class="${name ?? "plain"}">${items.map((each) => markup`<li>${item(each)}</li>`)}</ul>`;
}

/**
 * Nothing runs, nothing is loaded, nothing frames the page, and no address leaves in a referrer: the URL holds the id of the request.
 * Browsers apply `form-action` to the redirects that follow a form, so it names where this login ends.
 */
function securityHeaders(redirectOrigin: string | undefined): Record<string, string> {
  const policy = [
    "default-src 'none'",
    `style-src 'sha256-${STYLE_DIGEST}'`,
    "img-src data:",
    `form-action ${redirectOrigin === undefined ? "'none'" : `'self' ${formTarget(redirectOrigin)}`}`,
    "frame-ancestors 'none'",
    "base-uri 'none'",
  ];
  return {
    "cache-control": "no-store",
    pragma: "no-cache",
    "content-security-policy": policy.join("; "),
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), display-capture=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
  };
}

/**
 * The source of Content Security Policy Level 3, section 2.3.1, that matches the origin of a redirect. Its grammar has no IPv6 address: the scheme stands for one.
 * @throws RangeError when it is no origin and no scheme: a policy takes no other text
 */
function formTarget(redirectOrigin: string): string {
  if (/^(https?:\/\/[a-z0-9._-]+(:\d{1,5})?|[a-z][a-z0-9+.-]*:)$/i.test(redirectOrigin)) return redirectOrigin;
  const scheme = /^(https?:)\/\/\[[0-9a-f:.]+\](:\d{1,5})?$/i.exec(redirectOrigin)?.[1];
  if (scheme === undefined) throw new RangeError(`${JSON.stringify(redirectOrigin)} is no origin of a redirect`);
  return scheme;
}
