import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// A server to develop against: `ropewalk serve`. Enter with its link once; the cookie is for every port of the host.
const served = { target: process.env.ROPEWALK_URL ?? "http://127.0.0.1:8742", changeOrigin: true };

export default defineConfig({
  plugins: [react()],
  build: {
    outDir: "dist/site",
    emptyOutDir: true,
    // Everything is a file: a policy without inline scripts refuses what would be put into the page.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2022",
  },
  server: { proxy: { "/api": served, "/healthz": served } },
});
