import { errorText } from "@sallyport/async";
import { type HttpAnswer, type HttpRequest, RefusedError } from "../api/http-client.ts";
import type { ControllerSet } from "./controller-set.ts";
import { paced } from "./paced.ts";
import { get, post } from "./requests.ts";

const PAGE = 500;
const CONFLICT = 400;

/** What a client saw that asks each controller in turn, and asks the next one once when that fails. */
export interface Called {
  calls: number;
  retried: number;
  readonly failures: string[];
  /** Names of services whose creation was acknowledged. */
  readonly acknowledged: string[];
}

/** Reads and writes in equal parts. */
export async function callApi(
  set: ControllerSet,
  perSecond: number,
  forMs: number,
  isOver: () => boolean,
): Promise<Called> {
  const called: Called = { calls: 0, retried: 0, failures: [], acknowledged: [] };
  const ask = async (index: number, request: HttpRequest, isDone: (error: unknown) => boolean): Promise<void> => {
    const at = (n: number): Promise<HttpAnswer> => set.at(n % set.members.length).client.ask(request);
    called.calls += 1;
    try {
      await at(index);
    } catch {
      called.retried += 1;
      await at(index + 1).catch((error: unknown) => {
        // The first attempt was committed before its answer was lost.
        if (!isDone(error)) throw error;
      });
    }
  };
  await paced(
    perSecond,
    forMs,
    async (index) => {
      const name = `written-${index}`;
      try {
        if (index % 2 === 0) return await ask(index, get("/services?limit=10"), () => false);
        await ask(index, post("/services", { name, encryptionRequired: true }), isTaken);
        called.acknowledged.push(name);
      } catch (error) {
        called.failures.push(errorText(error));
      }
    },
    isOver,
  );
  return called;
}

/** How many acknowledged services a controller does not list. */
export async function missingAt(set: ControllerSet, index: number, { acknowledged }: Called): Promise<number> {
  const listed = new Set<string>();
  for (let offset = 0; ; offset += PAGE) {
    const page = await set.at(index).client.data<{ name: string }[]>(get(`/services?limit=${PAGE}&offset=${offset}`));
    for (const { name } of page) listed.add(name);
    if (page.length < PAGE) return acknowledged.filter((name) => !listed.has(name)).length;
  }
}

function isTaken(error: unknown): boolean {
  return error instanceof RefusedError && error.answer.status === CONFLICT && /name/.test(error.answer.text);
}
