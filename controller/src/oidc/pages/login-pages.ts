/** The pages of a login: server-rendered HTML without scripts, which text browsers can use, too. */
import QRCode from "qrcode";
import { listOf, page } from "./layout.ts";
import { type Insert, type Markup, markup } from "./markup.ts";
import { ENROLLMENT_FIELD, type EnrollmentView, PAGE_SECRET_FIELD, type Pages, type PageView } from "./pages.ts";

/** Pixels of a module of the QR code. The page shows it in its own size: a scaled one has modules of unequal width. */
const QR_SCALE = 5;

/** @param network the address by which users know the network, such as `ctrl.example.org:1280` */
export function createPages(network: string): Pages {
  const step = (view: PageView, title: string, body: Markup) =>
    page(network, {
      status: view.status ?? 200,
      title,
      redirectOrigin: view.redirectOrigin,
      body: markup`<h1>${title}</h1>
<p class="soft">to <strong><bdi>${network}</bdi></strong></p>
${view.problem === undefined ? undefined : markup`<p class="problem" id="problem" role="alert">${view.problem}</p>`}
${body}`,
    });
  const message = (status: number, title: string, body: Markup, head?: Markup) =>
    page(network, { status, title, body: markup`<h1>${title}</h1>\n${body}`, ...(head && { head }) });

  return {
    password: (view) => step(view, "Sign in", passwordBody(view)),
    code: (view) => step(view, "Enter your code", codeBody(view)),
    enrollment: async (view) => step(view, "Set up one-time codes", await enrollmentBody(view)),
    failure: (status, text) =>
      message(
        status,
        FAILURES[status] ?? (status < 500 ? "This sign-in cannot go on" : "The controller cannot answer now"),
        markup`<p class="problem" role="alert">${text}</p>
<p class="soft">You can close this page. To try again, start the sign-in from your program.</p>`,
      ),
    ended: () =>
      message(200, "You are signed out", markup`<p class="soft">The session has ended. You can close this page.</p>`),
    open(link) {
      const { protocol } = new URL(link);
      if (SCRIPT_SCHEMES.has(protocol)) throw new RangeError(`a page must not link to ${protocol}`);
      return message(
        200,
        "You are signed in",
        markup`<p class="soft">Your program opens by itself. If it does not, use this link.</p>
<p><a class="button" href="${link}">Return to your program</a></p>`,
        markup`\n<meta http-equiv="refresh" content="0; url=${link}">`,
      );
    },
  };
}

const FAILURES: Readonly<Record<number, string>> = {
  401: "This sign-in is over",
  404: "There is no such page",
  429: "Too many attempts",
};

/** Schemes whose links a browser would run or show in the name of the page. */
const SCRIPT_SCHEMES: ReadonlySet<string> = new Set(["javascript:", "data:", "vbscript:", "blob:", "filesystem:"]);

function passwordBody(view: PageView): Markup {
  return markup`${requestBox(view)}
${form(
  view,
  "password",
  markup`<div class="field"><label for="username">User name</label>
<input id="username" name="username" type="text" autocomplete="username" autocapitalize="none" spellcheck="false" maxlength="255" required autofocus${invalid(view)}></div>
<div class="field"><label for="password">Password</label>
<input id="password" name="password" type="password" autocomplete="current-password" maxlength="1024" required${invalid(view)}></div>
<button type="submit">Sign in</button>`,
)}
<p class="or">or</p>
${form(view, "cert", markup`<button class="second" type="submit">Sign in with a certificate</button>`)}
<p class="note">This takes the client certificate that your browser has for this network.</p>
${signersBox(view)}`;
}

function codeBody(view: PageView): Markup {
  return markup`<p>Open your authenticator app and enter the six digits that it shows for this network.</p>
${form(view, "totp", markup`${codeField(view, "Code", FOCUS)}\n<button type="submit">Continue</button>`)}
<details><summary>Use a recovery code</summary>
${form(
  view,
  "totp",
  markup`<div class="field"><label for="recovery">Recovery code</label>
<input id="recovery" name="code" type="text" autocomplete="off" autocapitalize="characters" spellcheck="false" maxlength="13" required></div>
<button class="second" type="submit">Continue with the recovery code</button>`,
)}
<p class="note">Each recovery code works once.</p></details>
${signersBox(view)}`;
}

async function enrollmentBody(view: EnrollmentView): Promise<Markup> {
  const qr = await QRCode.toDataURL(view.provisioningUrl, { scale: QR_SCALE, margin: 3, errorCorrectionLevel: "M" });
  const secret = new URL(view.provisioningUrl).searchParams.get("secret") ?? "";
  return markup`<p>This network asks for a one-time code at each sign-in. You set it up once.</p>
<ol class="steps">
<li><h2>Scan the QR code</h2>
<p class="note">Use an authenticator app, such as Aegis, Google Authenticator or Microsoft Authenticator.</p>
<img class="qr" src="${qr}" alt="QR code with the secret that is shown below">
<p class="note">Cannot scan it? <a href="${view.provisioningUrl}">Open it in an app on this device</a>, or enter this secret:<br>
<code class="secret">${(secret.match(/.{1,4}/g) ?? []).map((part) => markup`<span>${part}</span>`)}</code></p></li>
<li><h2>Keep your recovery codes</h2>
<p class="note">Store them in a safe place. Each one signs you in once without your phone.</p>
${listOf(view.recoveryCodes, (code) => markup`<code>${code}</code>`, "codes")}</li>
<li><h2>Enter the first code</h2>
${form(
  view,
  "totp/enroll/verify",
  markup`${hidden(ENROLLMENT_FIELD, view.enrollmentId)}
${codeField(view, "Code that the app shows", view.problem === undefined ? undefined : FOCUS)}
<label class="check"><input type="checkbox" required> <span>I have stored the recovery codes.</span></label>
<button type="submit">Finish and sign in</button>`,
)}</li>
</ol>
${signersBox(view)}`;
}

/** Not for a field below what the user has to read first. */
const FOCUS = markup` autofocus`;

/** A form of the login; its hidden fields tie it to the request and, after the first factor, to this browser. */
function form({ requestId, pageSecret }: PageView, action: string, body: Markup): Markup {
  return markup`<form method="post" action="/oidc/login/${action}">
${hidden("id", requestId)}${pageSecret === undefined ? undefined : hidden(PAGE_SECRET_FIELD, pageSecret)}
${body}
</form>`;
}

const hidden = (name: string, value: string): Markup =>
  markup`<input type="hidden" name="${name}" value="${value}" autocomplete="off">`;

const codeField = (view: PageView, label: string, focus?: Markup): Markup =>
  markup`<div class="field"><label for="code">${label}</label>
<input class="code" id="code" name="code" type="text" inputmode="numeric" autocomplete="one-time-code" pattern="[0-9]{6,8}" title="six digits" maxlength="8" required${focus}${invalid(view)}></div>`;

/** Ties a field to the text that says what is wrong. */
const invalid = ({ problem }: PageView): Insert =>
  problem === undefined ? undefined : markup` aria-invalid="true" aria-describedby="problem"`;

/** Who asks for the login, and where it leads: a user who did not start it must be able to notice. */
function requestBox({ client, redirectOrigin }: PageView): Markup {
  return markup`<div class="request"><p>The client <strong>${client}</strong> asks you to sign in. You return to ${returnTo(redirectOrigin)}.</p>
<p>You did not start this? Close the page.</p></div>`;
}

function returnTo(redirectOrigin: string): Markup {
  if (!/^https?:\/\//i.test(redirectOrigin)) {
    return markup`the app on this device that opens <strong>${redirectOrigin}</strong> links`;
  }
  const { host, hostname } = new URL(redirectOrigin);
  const isHere = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname);
  return markup`<strong>${host}</strong>, ${isHere ? "a program on this computer" : "a web site"}`;
}

/** External identity providers: their tokens come from the client program, as a page without scripts cannot fetch one. */
function signersBox({ signers }: PageView): Markup | undefined {
  if (signers.length === 0) return undefined;
  return markup`<section class="others"><h2>Other ways to sign in</h2>
<p>Choose one of these in your client program; it opens the provider's own page:</p>
${listOf(signers, ({ name }) => markup`<bdi>${name}</bdi>`)}</section>`;
}
