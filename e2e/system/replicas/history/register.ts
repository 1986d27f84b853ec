/** An operation on one register, with times of one steady clock. No two writes have the same value. */
export interface RegisterOperation {
  readonly kind: "read" | "write";
  /** What was read, or was to be written; undefined is the value before the first write. */
  readonly value: string | undefined;
  readonly began: number;
  /** `Number.POSITIVE_INFINITY` for a write whose outcome is unknown: it may have taken effect at any time since, or never. */
  readonly ended: number;
  /** Who asked whom: for reports. */
  readonly by: string;
}

interface Place {
  /** The operations that have taken effect, in this order. */
  readonly done: readonly RegisterOperation[];
  readonly value: string | undefined;
}

/**
 * Is there an order of the operations in which each read shows the last write before it, and in which an operation that ended before another began comes
 * first? The search is the one of Wing and Gong, and remembers where it has been (Lowe). Failed writes and reads without an answer do not belong in a history.
 * @returns undefined if there is such an order, else what shows that there is none
 */
export function linearizationProblem(history: readonly RegisterOperation[]): string | undefined {
  const shown = new Set(history.filter(({ kind }) => kind === "read").map(({ value }) => value));
  // A write of unknown outcome that no client has seen may as well never have taken effect.
  const operations = history
    .filter(({ ended, value }) => ended !== Number.POSITIVE_INFINITY || shown.has(value))
    .sort((a, b) => a.began - b.began);
  const certain = operations.filter(isCertain).length;
  const isDone = operations.map(() => false);
  const order: RegisterOperation[] = [];
  const failed = new Set<string>();
  let furthest: Place = { done: [], value: undefined };

  const search = (first: number, certainDone: number, value: string | undefined): boolean => {
    if (certainDone === certain) return true;
    if (order.length > furthest.done.length) furthest = { done: [...order], value };
    let from = first;
    while (isDone[from]) from++;
    const next = nextOnes(operations, isDone, from);
    const place = `${from} ${isDone.flatMap((done, at) => (done && at > from ? at : []))} ${value}`;
    if (failed.has(place)) return false;
    for (const at of next) {
      const operation = operations[at] as RegisterOperation;
      if (operation.kind === "read" && operation.value !== value) continue;
      isDone[at] = true;
      order.push(operation);
      const then = operation.kind === "write" ? operation.value : value;
      if (search(from, certainDone + (isCertain(operation) ? 1 : 0), then)) return true;
      order.pop();
      isDone[at] = false;
      // A read that fits takes nothing from what comes after it.
      if (operation.kind === "read") break;
    }
    failed.add(place);
    return false;
  };

  if (search(0, 0, undefined)) return undefined;
  const last = new Set(furthest.done);
  const left = nextOnes(
    operations,
    operations.map((operation) => last.has(operation)),
    0,
  );
  const lines = (of: readonly RegisterOperation[]) => of.map((operation) => `\n  ${textOf(operation)}`).join("");
  const next = left.map((at) => operations[at] as RegisterOperation);
  return `after${lines(furthest.done.slice(-5))}\nthe value is ${furthest.value}, and none of these can come next:${lines(next)}`;
}

/** The operations that may come next: no other one that is left ended before they began. */
function nextOnes(operations: readonly RegisterOperation[], isDone: readonly boolean[], from: number): number[] {
  let firstEnd = Number.POSITIVE_INFINITY;
  const found: number[] = [];
  for (let at = from; at < operations.length; at++) {
    if (isDone[at]) continue;
    const { began, ended } = operations[at] as RegisterOperation;
    if (began > firstEnd) break;
    firstEnd = Math.min(firstEnd, ended);
    found.push(at);
  }
  return found;
}

function isCertain({ ended }: RegisterOperation): boolean {
  return ended !== Number.POSITIVE_INFINITY;
}

function textOf({ kind, value, began, ended, by }: RegisterOperation): string {
  const end = ended === Number.POSITIVE_INFINITY ? "unknown" : ended.toFixed(1);
  return `${kind} ${value} [${began.toFixed(1)}, ${end}] ${by}`;
}
