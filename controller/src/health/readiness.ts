import type { Page } from "../http/pages.ts";

/** The path that says whether this process should get requests, and the one of {@link Readiness.isMember}. */
export const READY_PATH = "/health-checks/ready";
export const MEMBER_PATH = "/health-checks/member";

/** An answer of the other controllers counts for so long: any caller may ask for one. */
const FRESH_MS = 2_000;

interface ReadinessParts {
  /** This process among those on the database. */
  readonly replica: { readonly isShared: boolean; readonly isTold: boolean };
  /** Is another controller one of those that share the database now? */
  readonly isOtherMember: () => Promise<boolean>;
  readonly now?: () => number;
}

/**
 * Whether a load balancer should send requests to this process. It takes one out that stops, and one that does not know what the others write, because it
 * catches up or has no database. If no other one knows it either, it stays in: that none answers is worse than that all answer 503. Source:
 * docs/protocol/replicas.md, "Readiness".
 */
export class Readiness {
  readonly #parts: ReadinessParts;
  #isStopping = false;
  #asked: { readonly at: number; readonly answer: Promise<boolean> } | undefined;

  constructor(parts: ReadinessParts) {
    this.#parts = parts;
  }

  /** From now on no request should come. */
  stopping(): void {
    this.#isStopping = true;
  }

  /** Does this process know in time what the others write? One that works alone does. */
  get isMember(): boolean {
    const { isShared, isTold } = this.#parts.replica;
    return !this.#isStopping && (!isShared || isTold);
  }

  /** Why no request should come; undefined when they should. */
  async problem(): Promise<string | undefined> {
    if (this.#isStopping) return "stopping";
    if (this.isMember || !(await this.#isOtherMember())) return undefined;
    return "what the other controllers write is not known here";
  }

  #isOtherMember(): Promise<boolean> {
    const now = (this.#parts.now ?? (() => performance.now()))();
    if (this.#asked === undefined || now - this.#asked.at >= FRESH_MS) {
      this.#asked = { at: now, answer: this.#parts.isOtherMember().catch(() => false) };
    }
    return this.#asked.answer;
  }
}

/** The pages for load balancers and probes: 200 or 503, without authentication. */
export function readinessPages(readiness: Readiness): Page[] {
  const page = (path: string, problem: () => Promise<string | undefined>): Page => ({
    path,
    async handle() {
      const found = await problem();
      const body = JSON.stringify({
        data: { healthy: found === undefined, ...(found !== undefined && { reason: found }) },
      });
      return { status: found === undefined ? 200 : 503, contentType: "application/json", body };
    },
  });
  return [
    page(READY_PATH, () => readiness.problem()),
    page(MEMBER_PATH, async () => (readiness.isMember ? undefined : "no member")),
  ];
}
