import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { EndpointAnswer } from "../../http/endpoints.ts";
import { createPages } from "./login-pages.ts";
import { escaped } from "./markup.ts";
import { ENROLLMENT_FIELD, type EnrollmentView, PAGE_SECRET_FIELD, type PageView } from "./pages.ts";

const NETWORK = "ctrl.example.org:1280";
const pages = createPages(NETWORK);

const view = (change: Partial<PageView> = {}): PageView => ({
  requestId: "3f95c1d2-0000-4000-8000-000000000001",
  pageSecret: undefined,
  client: "openziti",
  redirectOrigin: "http://localhost:8080",
  signers: [],
  ...change,
});

const enrollment = (change: Partial<EnrollmentView> = {}): EnrollmentView => ({
  ...view(),
  enrollmentId: "enrollment-id",
  provisioningUrl: "otpauth://totp/Sallyport:alice?issuer=Sallyport&secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ",
  recoveryCodes: ["ABCDEF", "234567"],
  ...change,
});

const everyPage = async (): Promise<Record<string, EndpointAnswer>> => ({
  password: pages.password(view()),
  code: pages.code(view()),
  enrollment: await pages.enrollment(enrollment()),
  failure: pages.failure(400, "The redirect URI is not registered."),
  ended: pages.ended(),
  open: pages.open("openziti://auth/callback?code=c&state=s"),
});

const html = (answer: EndpointAnswer): string => answer.body?.text ?? "";

function policyOf(answer: EndpointAnswer): Record<string, string> {
  const text = answer.headers?.["content-security-policy"] ?? "";
  return Object.fromEntries(text.split("; ").map((part) => part.split(/ (.*)/, 2) as [string, string]));
}

/** Names and values of the hidden fields of each form, by where the form goes. */
function formsOf(answer: EndpointAnswer): [action: string, hidden: Record<string, string>][] {
  return [...html(answer).matchAll(/<form method="post" action="([^"]*)">(.*?)<\/form>/gs)].map(([, action, body]) => [
    action!,
    Object.fromEntries(
      [...body!.matchAll(/<input type="hidden" name="([^"]*)" value="([^"]*)"/g)].map(([, name, value]) => [
        name,
        value,
      ]),
    ),
  ]);
}

describe("every page", () => {
  it("lets nothing run, load, frame or leak: by headers that allow its one style only", async () => {
    for (const answer of Object.values(await everyPage())) {
      const styles = [...html(answer).matchAll(/<style>(.*?)<\/style>/gs)].map(([, style]) => style!);
      expect(styles).toHaveLength(1);
      const digest = createHash("sha256").update(styles[0]!).digest("base64");
      expect(policyOf(answer)).toEqual({
        "default-src": "'none'",
        "style-src": `'sha256-${digest}'`,
        "img-src": "data:",
        "form-action": expect.any(String),
        "frame-ancestors": "'none'",
        "base-uri": "'none'",
      });
      expect(answer.headers).toMatchObject({
        "cache-control": "no-store",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
      });
      expect(answer.body?.type).toBe("text/html; charset=utf-8");
      expect(html(answer)).not.toMatch(
        /<script|\son\w+=|\sstyle=|<link|@import|url\((?!data)|src="(?!data:image\/png)/i,
      );
    }
  });

  it("has a title, a language and a heading, and a label for every field", async () => {
    for (const answer of Object.values(await everyPage())) {
      const text = html(answer);
      expect(text).toMatch(/^<!doctype html>\n<html lang="en">/);
      expect(text).toMatch(/<title>[^<]+ · ctrl\.example\.org:1280<\/title>/);
      expect(text.match(/<h1>/g)).toHaveLength(1);
      const fields = [...text.matchAll(/<input (?!type="(?:hidden|checkbox)")id="([^"]*)"/g)].map(([, id]) => id!);
      for (const id of fields) expect(text).toContain(`<label for="${id}">`);
      expect(new Set(fields).size).toBe(fields.length);
    }
  });

  it("shows every text literally, whatever it holds", async () => {
    const hostile = fc.string({
      unit: fc.constantFrom(
        "<",
        ">",
        '"',
        "'",
        "&",
        "`",
        "=",
        "/",
        "script",
        "onload",
        "--",
        "]]",
        "${",
        "ü",
        "\u202e",
        " ",
        "\n",
      ),
      minLength: 1,
      maxLength: 30,
    });
    const tags = (answer: EndpointAnswer) =>
      html(answer)
        .replace(/"[^"]*"/g, '""')
        .match(/<[^>]*>/g);
    const expected = {
      password: tags(pages.password(view({ problem: "p", signers: [{ name: "s" }] }))),
      code: tags(pages.code(view({ pageSecret: "s", problem: "p" }))),
      enrollment: tags(await pages.enrollment(enrollment({ recoveryCodes: ["a", "b"] }))),
      failure: tags(pages.failure(400, "f")),
    };
    await fc.assert(
      fc.asyncProperty(hostile, hostile, async (one, two) => {
        const password = pages.password(view({ requestId: one, client: two, problem: one, signers: [{ name: two }] }));
        expect(tags(password)).toEqual(expected.password);
        expect(html(password)).toContain(`value="${escaped(one)}"`);
        expect(html(password)).toContain(`<bdi>${escaped(two)}</bdi>`);
        expect(tags(pages.code(view({ requestId: one, pageSecret: two, problem: two })))).toEqual(expected.code);
        expect(tags(await pages.enrollment(enrollment({ requestId: two, recoveryCodes: [one, two] })))).toEqual(
          expected.enrollment,
        );
        expect(tags(pages.failure(400, one))).toEqual(expected.failure);
        expect(tags(createPages(one).failure(400, two))).toEqual(expected.failure);
      }),
      { numRuns: 50 },
    );
    expect(escaped(`<a href="x" title='y'>&\``)).toBe("&#60;a href=&#34;x&#34; title=&#39;y&#39;&#62;&#38;&#96;");
  });
});

describe("forms", () => {
  it("go to the steps of the login and carry the request, and the secret of the page once there is one", async () => {
    const request = { id: view().requestId };
    expect(formsOf(pages.password(view()))).toEqual([
      ["/oidc/login/password", request],
      ["/oidc/login/cert", request],
    ]);
    const bound = { ...request, [PAGE_SECRET_FIELD]: "page-secret" };
    expect(formsOf(pages.code(view({ pageSecret: "page-secret" })))).toEqual([
      ["/oidc/login/totp", bound],
      ["/oidc/login/totp", bound],
    ]);
    expect(formsOf(await pages.enrollment(enrollment({ pageSecret: "page-secret" })))).toEqual([
      ["/oidc/login/totp/enroll/verify", { ...bound, [ENROLLMENT_FIELD]: "enrollment-id" }],
    ]);
  });

  it("tell password managers and keyboards what goes into a field", () => {
    expect(html(pages.password(view()))).toMatch(/name="username"[^>]*autocomplete="username"/);
    expect(html(pages.password(view()))).toMatch(/name="password" type="password" autocomplete="current-password"/);
    expect(html(pages.code(view()))).toMatch(
      /name="code" type="text" inputmode="numeric" autocomplete="one-time-code"/,
    );
  });

  it("may lead to the controller and to where this login ends, and nowhere else", () => {
    const target = (redirectOrigin: string) => policyOf(pages.password(view({ redirectOrigin })))["form-action"];
    expect(target("http://localhost:8080")).toBe("'self' http://localhost:8080");
    expect(target("https://console.example.org")).toBe("'self' https://console.example.org");
    expect(target("openziti:")).toBe("'self' openziti:");
    // A policy has no form for addresses of IPv6.
    expect(target("http://[::1]:8080")).toBe("'self' http:");
    for (const page of [pages.failure(400, "no"), pages.ended()]) expect(policyOf(page)["form-action"]).toBe("'none'");
    for (const hostile of [
      "http://a.example;script-src",
      "http://a.example; script-src *",
      "http://a.example, default-src *",
      "*",
      "",
      "'unsafe-inline'",
    ]) {
      expect(() => target(hostile)).toThrow();
    }
  });
});

describe("what a user is told", () => {
  it("is who asks for the login, and where it leads", () => {
    const shown = (redirectOrigin: string) => html(pages.password(view({ client: "native", redirectOrigin })));
    expect(shown("http://localhost:8080")).toContain(
      "The client <strong>native</strong> asks you to sign in. You return to <strong>localhost:8080</strong>, a program on this computer.",
    );
    expect(shown("http://[::1]:8080")).toContain("<strong>[::1]:8080</strong>, a program on this computer.");
    expect(shown("http://localhost.evil.example:8080")).toContain(
      "<strong>localhost.evil.example:8080</strong>, a web site.",
    );
    expect(shown("openziti:")).toContain("the app on this device that opens <strong>openziti:</strong> links.");
  });

  it("is what was wrong, at the field and with the status that the caller sets", () => {
    const right = pages.password(view());
    expect([right.status, html(right)]).toEqual([200, expect.not.stringContaining('id="problem"')]);
    const wrong = pages.password(view({ problem: "Wrong password.", status: 401 }));
    expect(wrong.status).toBe(401);
    expect(html(wrong)).toContain('<p class="problem" id="problem" role="alert">Wrong password.</p>');
    expect(html(wrong).match(/aria-invalid="true" aria-describedby="problem"/g)).toHaveLength(2);
  });

  it("is which external providers sign in by the client program", () => {
    expect(html(pages.password(view()))).not.toContain("Other ways to sign in");
    expect(html(pages.code(view({ signers: [{ name: "Staff" }] })))).toMatch(
      /Other ways to sign in.*<bdi>Staff<\/bdi>/s,
    );
  });

  it("is, at an enrollment, the secret as picture, link and text, and every recovery code", async () => {
    const text = html(await pages.enrollment(enrollment()));
    expect(text).toMatch(/<img class="qr" src="data:image\/png;base64,iVBOR[^"]+" alt="[^"]+">/);
    expect(text).toContain('<a href="otpauth://totp/Sallyport:alice?issuer=Sallyport&#38;secret=GEZDGNBV');
    expect(text.replace(/<\/?span>/g, "")).toContain('<code class="secret">GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ</code>');
    for (const code of ["ABCDEF", "234567"]) expect(text).toContain(`<code>${code}</code>`);
  });
});

describe("the page of a link", () => {
  it("opens the program by itself, and shows the link for browsers that do not", () => {
    const text = html(pages.open("openziti://auth/callback?code=c&state=s"));
    const link = "openziti://auth/callback?code=c&#38;state=s";
    expect(text).toContain(`<meta http-equiv="refresh" content="0; url=${link}">`);
    expect(text).toContain(`<a class="button" href="${link}">`);
  });

  it.each(["javascript:alert(1)", "data:text/html,x", "JavaScript://x/%0aalert(1)", "vbscript:x"])(
    "never is %s",
    (link) => {
      expect(() => pages.open(link)).toThrow(RangeError);
    },
  );
});
