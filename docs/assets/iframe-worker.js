// Search from disk: a browser starts no worker from file://, so a hidden frame does its work there.
(() => {
  if (location.protocol !== "file:") return;

  const inFrame = (url) => `<!doctype html><body><script>
    window.postMessage = (data) => parent.postMessage(data, "*");
    window.importScripts = (...urls) => urls.reduce((before, each) => before.then(() => new Promise((done, fail) => {
      const script = document.createElement("script");
      script.src = each;
      script.onload = done;
      script.onerror = fail;
      document.body.append(script);
    })), Promise.resolve());
  <\/script><script src="${url}"><\/script></body>`;

  class FrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      this.hear = (event) => {
        if (event.source !== this.frame.contentWindow) return;
        const message = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(message);
        if (this.onmessage) this.onmessage(message);
      };
      addEventListener("message", this.hear);
      inside.document.open();
      inside.document.write(inFrame(url));
      inside.document.close();
      this.loaded = new Promise((done) => { inside.onload = done; });
    }

    postMessage(data) {
      this.loaded.then(() => {
        const inside = this.frame.contentWindow;
        inside.dispatchEvent(new inside.MessageEvent("message", { data }));
      });
    }

    terminate() {
      removeEventListener("message", this.hear);
      this.frame.remove();
    }
  }

  window.Worker = FrameWorker;
})();
