import { routerBody } from "@sallyport/resources/sync";
import { expect, test } from "vitest";
import { found } from "../testing/routers.ts";

const FIELDS = {
  ...{ name: "eu-0", tags: {}, roleAttributes: [], cost: 0, noTraversal: false, disabled: false },
  ...{ isTunnelerEnabled: false, appData: {} },
};
const listeners = { ctrlChanListeners: { "tls:a:1": ["x"] } };

test.each([
  ["in a network with configs of routers", found({ ...listeners, configs: ["c"] }), [], { ...listeners, configs: [] }],
  ["that had no configs", found({ configs: null }), ["c"], { configs: ["c"] }],
  ["in an older network", found(listeners), [], listeners],
  ["that is new", undefined, [], {}],
  ["that is new and has a config", undefined, ["c"], { configs: ["c"] }],
])(
  "the body of a router %s says nothing that the network does not know, and keeps what it has",
  (_, before, configs, more) => {
    const {
      configs: _configs,
      ctrlChanListeners: _listeners,
      ...rest
    } = routerBody({ ...FIELDS, configs }, before) as Record<string, unknown>;
    expect(rest).toEqual(FIELDS);
    expect(routerBody({ ...FIELDS, configs }, before)).toEqual({ ...FIELDS, ...more });
  },
);
