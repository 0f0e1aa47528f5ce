// The field of the API key, and whether the service takes the key.

import * as api from "../common/api.js";
import { byId } from "../common/elements.js";

export class Access {
  // `onProblem` is called with a message about the key, or "" when it has been changed; `onKey` then.
  constructor(onProblem, onKey) {
    Object.assign(this, { onProblem, used: false, required: false });
    this.field = byId("key");
    this.field.value = api.key();
    this.field.addEventListener("change", () => {
      api.storeKey(this.field.value.trim());
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

  get missing() {
    return this.required && !api.key();
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
