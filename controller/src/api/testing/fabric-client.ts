import { expect } from "vitest";
import { type Answer, startTestController } from "./test-controller.ts";

/** A controller with an administrator's calls of the Fabric API. */
export async function startFabricClient() {
  const controller = await startTestController();
  const token = await controller.login("admin", "admin");
  const call = (method: string, path: string, body?: unknown): Promise<Answer> =>
    controller.call(method, `/fabric/v1${path}`, { token, body });
  return {
    controller,
    token,
    call,
    /** The ids of a collection that a filter finds. */
    async listed(path: string, filter: string): Promise<string[]> {
      const answer = await call("GET", `${path}?filter=${encodeURIComponent(filter)}`);
      expect(answer.status, answer.text).toBe(200);
      return answer.json.data.map((each: { id: string }) => each.id);
    },
  };
}
