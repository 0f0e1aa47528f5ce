// Whether the service is there, asked again and again while the page is seen, and said in the footer.

import * as api from "./api.js";

const EVERY = 5000; // milliseconds

export class ServiceStatus {
  // `returned`: called when the service answers after it did not.
  constructor(node, returned) {
    this.node = node;
    this.returned = returned;
    this.there = true;
    setInterval(() => this.look(), EVERY);
    for (const event of ["online", "offline", "visibilitychange"]) addEventListener(event, () => this.look());
  }

  async look() {
    if (document.visibilityState === "hidden") return;
    try {
      await api.ready();
      if (!this.there) await this.returned();
    } catch (error) {
      if (error.away) this.away();
    }
  }

  ready(models) {
    this.there = true;
    this.node.textContent = `ready · ${models} ${models === 1 ? "model" : "models"}`;
  }

  away() {
    this.there = false;
    this.node.textContent = "the service is not answering";
  }
}
