// The field of the API key, and whether the service takes the key.

import * as api from "../common/api.js";
import { byId } from "../common/elements.js";

const KEY = /^[\x21-\x7e]*$/u; // the characters of a header

export class Access {
  // `onProblem` is called with a message about the key, or "" when another one has been entered; `onKey` then.
  constructor(onProblem, onKey) {
    Object.assign(this, { onProblem, used: false, required: false, malformed: false });
    this.field = byId("key");
    this.field.value = api.key();
    this.field.addEventListener("change", () => {
      const key = this.field.value.trim();
      this.malformed = !KEY.test(key);
      api.storeKey(this.malformed ? "" : key);
      if (this.problem) return this.require(this.problem);
      this.accept();
      onProblem("");
      onKey();
    });
  }

  // Show the field where the service has keys; `required`: whether nothing is answered without one.
  offer({ apiKeys, keyRequired }) {
    this.used = apiKeys;
    byId("access").hidden = !apiKeys;
    this.required = keyRequired;
  }

  // Why nothing can be asked for with this key, as a message; empty if it can.
  get problem() {
    if (this.malformed) return "The API key has a character that no key has, perhaps an invisible one. Copy it again.";
    return this.required && !api.key() ? "This service requires an API key." : "";
  }

  // The key is missing or invalid: show a message in place of the answer, and mark the field.
  require(message) {
    this.field.ariaInvalid = "true";
    this.onProblem(message);
  }

  accept() {
    this.field.ariaInvalid = "false";
  }
}
