import { pause } from "@sallyport/async";
import { expect } from "vitest";
import { eventually } from "../../network/eventually.ts";
import { sessionsOf } from "../../network/login/logins.ts";
import { carries, type OidcNetwork, type Pair, Stream, type Whose } from "./network.ts";

/** In this time several beats of an open stream come back. */
const STILL_MS = 500;

/** The client loses what is open with its session, and goes on in a new one. */
export async function losesItsSession(oidc: OidcNetwork, pair: Pair): Promise<void> {
  const [before] = await sessionsOf(oidc.network.management, pair.identityId);
  const stream = await Stream.open(pair.port);
  await stream.more(1);
  await oidc.network.management.deleteAPISessions({ params: { id: before?.id ?? "" } });
  await pair.client.ready("a circuit of a new session", () => carries(pair));
  const after = await sessionsOf(oidc.network.management, pair.identityId);
  expect(after.map(({ id, token }) => ({ isNew: id !== before?.id, token }))).toEqual([{ isNew: true, token: "" }]);
  const next = await Stream.open(pair.port);
  await isOver(pair.whose, stream, () => next.more(5));
  next.close();
}

/** The client loses what is open with its rights, and is refused everywhere. */
export async function losesItsRights(oidc: OidcNetwork, pair: Pair): Promise<void> {
  const { identityId } = pair;
  const stream = await Stream.open(pair.port);
  await stream.more(1);
  await oidc.network.management.disableIdentity({ params: { id: identityId }, body: { durationMinutes: 0 } });
  await eventually(
    "no session is left",
    async () => (await sessionsOf(oidc.network.management, identityId)).length === 0,
  );
  await isOver(pair.whose, stream, async () => expect(await carries(pair).catch(() => false)).toBe(false));
}

/** Resolves when nothing comes while something else is done. OpenZiti's router v1.6.0 tells a client of the end of its circuit half a minute after it. */
export async function isOver(whose: Whose, stream: Stream, meanwhile: () => Promise<unknown>): Promise<void> {
  if (whose === "our routers") await stream.ended;
  // What was on its way when the end was decided still arrives.
  await eventually("nothing comes any more", async () => {
    const { beats } = stream;
    await Promise.all([meanwhile(), pause(STILL_MS)]);
    return stream.beats === beats;
  });
  stream.close();
}

/** What each pair does, all at once; a failure names its pair. */
export async function each(pairs: readonly Pair[], action: (pair: Pair) => Promise<void>): Promise<void> {
  const failed = await Promise.all(
    pairs.map(async (pair) => {
      try {
        await action(pair);
        return [];
      } catch (error) {
        return [`${pair.kind} over ${pair.whose}: ${error}`];
      }
    }),
  );
  expect(failed.flat()).toEqual([]);
}
