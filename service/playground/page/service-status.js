// Status of the service in the footer, polled while the page is visible.

import * as api from "../common/api.js";

const POLL_INTERVAL = 5000; // milliseconds

export class ServiceStatus {
  // `onReturn` is called when the service answers again after an outage.
  constructor(node, onReturn) {
    this.node = node;
    this.onReturn = onReturn;
    this.available = true;
    setInterval(() => this.check(), POLL_INTERVAL);
    for (const event of ["online", "offline", "visibilitychange"]) addEventListener(event, () => this.check());
  }

  async check() {
    if (document.visibilityState === "hidden") return;
    try {
      await api.ready();
      if (!this.available) await this.onReturn();
    } catch (error) {
      if (error.unavailable) this.showUnavailable();
    }
  }

  showReady(models) {
    this.available = true;
    this.node.textContent = `ready · ${models} ${models === 1 ? "model" : "models"}`;
  }

  showUnavailable() {
    this.available = false;
    this.node.textContent = "the service is not answering";
  }
}
