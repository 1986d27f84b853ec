/** A snapshot of the database: which transactions it shows. */
export interface Snapshot {
  /** Every transaction below has ended. */
  readonly xmin: bigint;
  /** No transaction from here on is shown. */
  readonly xmax: bigint;
  /** Transactions between the two that were still open. */
  readonly open: ReadonlySet<bigint>;
}

/** Reads the text of `pg_current_snapshot()`: `xmin:xmax:open,open,…`. */
export function parseSnapshot(text: string): Snapshot {
  const [xmin = "0", xmax = "0", open = ""] = text.split(":");
  return {
    xmin: BigInt(xmin),
    xmax: BigInt(xmax),
    open: new Set(open === "" ? [] : open.split(",").map((xid) => BigInt(xid))),
  };
}

/** Does the snapshot show what the transaction wrote, given that it was committed? */
export function isVisibleIn({ xmin, xmax, open }: Snapshot, xid: bigint): boolean {
  return xid < xmin || (xid < xmax && !open.has(xid));
}
