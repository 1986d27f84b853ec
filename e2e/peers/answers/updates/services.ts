import { it } from "vitest";
import type { Both } from "../ask.ts";
import { get, patch, post, put, remove } from "../steps.ts";

const BAD_NAME = {
  status: 400,
  code: "COULD_NOT_VALIDATE",
  because: "OpenZiti drops the error, answers 200 and changes nothing",
};

export function serviceUpdates(both: () => Both): void {
  it("services and configs: null, names, references", async () => {
    const config = {
      name: "u-config",
      configTypeId: "host.v2",
      data: { terminators: [{ protocol: "tcp", address: "localhost", port: 80 }] },
    };
    const host = { protocol: "tcp", address: "localhost", port: 80 };
    await both().expectSame(
      post(
        "/services",
        { name: "u-1", encryptionRequired: true, roleAttributes: ["a"], tags: { k: "v" } },
        { keep: { one: "id" } },
      ),
      post("/services", { name: "u-2", encryptionRequired: true }, { keep: { two: "id" } }),
      get("/services/{one}"),
      patch("/services/{one}", { roleAttributes: null, tags: null }),
      get("/services/{one}"),
      patch("/services/{one}", { tags: { l: 1, m: true, n: null } }),
      get("/services/{one}"),
      patch("/services/{one}", { tags: {} }),
      get("/services/{one}"),
      patch("/services/{one}", { name: "u-2" }, { ours: BAD_NAME }),
      patch("/services/{one}", { name: "" }, { ours: BAD_NAME }),
      patch("/services/{one}", { encryptionRequired: "no" }),
      patch("/services/{one}", { bogus: 1 }),
      {
        ...patch("/services/{one}", { tags: { bad: { a: 1 } } }),
        ours: { status: 400, code: "COULD_NOT_PARSE_BODY", because: "OpenZiti answers 500" },
      },
      patch("/services/{one}", {}),
      patch("/services/{one}", { roleAttributes: ["#x"] }),
      patch("/services/{one}", { configs: ["nowhere"] }),
      patch("/services/{one}", { terminatorStrategy: "bogus" }),
      put("/services/{one}", { name: "u-1", encryptionRequired: true }),
      get("/services/{one}"),
      put("/services/nowhere", { name: "u-1", encryptionRequired: true }),
      post("/configs", config, { keep: { config: "id" } }),
      post("/configs", { ...config, name: "u-host", configTypeId: "NH5p4FpGR", data: host }, { keep: { host: "id" } }),
      post(
        "/configs",
        { ...config, name: "bad", configTypeId: "NH5p4FpGR", data: { protocol: "tcp" } },
        {
          ours: {
            status: 400,
            code: "COULD_NOT_VALIDATE",
            because: "ours names the field that is missing, OpenZiti `(root)`",
          },
        },
      ),
      {
        ...post("/configs", { ...config, name: "bad", data: [] }),
        ours: { status: 400, code: "COULD_NOT_PARSE_BODY", because: "as for every other value of a wrong type" },
      },
      post("/configs", { name: "bad" }),
      patch("/configs/{host}", { data: { ...host, port: "x" } }),
      patch("/configs/{host}", { data: { ...host, port: 81 } }),
      get("/configs/{host}"),
      patch("/services/{one}", { configs: ["{host}"] }),
      get("/services/{one}"),
      get("/services/{one}/configs"),
      get("/configs/{host}/services"),
      remove("/configs/{host}"),
      get("/services/{one}/configs"),
      remove("/configs/{config}"),
      remove("/config-types/NH5p4FpGR/x"),
      get("/config-types/NH5p4FpGR"),
      put("/services/{one}", { name: "u-1", encryptionRequired: false }),
      {
        ...get("/services/{one}"),
        ours: { status: 200, because: "whether a service is encrypted does not change, not even by PUT" },
      },
      remove("/services/{one}"),
      remove("/services/{two}"),
      get("/services/{one}"),
    );
  });
}
