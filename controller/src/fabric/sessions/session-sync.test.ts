import type { ApiSessionRecord } from "@sallyport/wire";
import { describe, expect, test } from "vitest";
import { type SyncChunk, SyncIds, SyncOverlay, syncChunks, syncStateJson } from "./session-sync.ts";

function sessions(count: number): ApiSessionRecord[] {
  return Array.from({ length: count }, (_, i) => {
    const id = `id${String(i).padStart(5, "0")}`;
    return { id, token: `token-${id}`, identityId: "identity", certFingerprints: [] };
  });
}

async function chunksOf(all: readonly ApiSessionRecord[]): Promise<SyncChunk[]> {
  const page = async (afterId: string, limit: number) => all.filter((s) => s.id > afterId).slice(0, limit);
  const chunks: SyncChunk[] = [];
  for await (const chunk of syncChunks(page)) chunks.push(chunk);
  return chunks;
}

describe("chunks of a full synchronisation", () => {
  test.each([
    [0, [0]],
    [1, [1]],
    [99, [99]],
    [100, [100]],
    [101, [100, 1]],
    [200, [100, 100]],
    [250, [100, 100, 50]],
  ])("%i sessions", async (count, sizes) => {
    const all = sessions(count);
    const chunks = await chunksOf(all);
    expect(chunks.map((c) => c.sessions.length)).toEqual(sizes);
    expect(chunks.map((c) => c.sequence)).toEqual(sizes.map((_, i) => i));
    expect(chunks.map((c) => c.isLast)).toEqual(sizes.map((_, i) => i === sizes.length - 1));
    expect(chunks.flatMap((c) => c.sessions)).toEqual(all);
  });

  test("the state header is the documented JSON, byte for byte", () => {
    expect(syncStateJson("cjld2cjxh0000qzrmn831i7rn", { isLast: true, sequence: 0 })).toBe(
      '{"id":"cjld2cjxh0000qzrmn831i7rn","isLast":true,"sequence":0}',
    );
  });

  test("a chunk read before a change is brought up to date", () => {
    const [gone, changed, same] = sessions(3);
    const overlay = new SyncOverlay();
    const renewed = { ...changed!, certFingerprints: ["00"] };
    overlay.updated({ ...gone!, certFingerprints: ["11"] });
    overlay.removed(gone!.id);
    overlay.updated(renewed);
    expect(overlay.apply([gone!, changed!, same!])).toEqual([renewed, same]);
  });
});

describe("ids of synchronisations", () => {
  test("grow as text, also within one millisecond and when the clock steps back", () => {
    const times = [1000, 1000, 1000, 999, 5, 1001, 1_900_000_000_000];
    const ids = new SyncIds(() => times.shift() ?? 0);
    const made = Array.from({ length: 7 }, () => ids.next());
    expect(made.toSorted()).toEqual(made);
    expect(new Set(made).size).toBe(7);
  });
});
