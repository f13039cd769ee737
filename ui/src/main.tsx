import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { ApiError } from "./api";
import { App } from "./App";
import { applyTheme } from "./theme";
import "./style.css";

applyTheme();

const client = new QueryClient({
  defaultOptions: {
    queries: {
      // Events say when something is stale.
      staleTime: Number.POSITIVE_INFINITY,
      refetchOnWindowFocus: false,
      // Only what may be over in a moment is tried again.
      retry: (count, error) => count < 3 && error instanceof ApiError && error.status === 503,
    },
  },
});

const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={client}>
        <App />
      </QueryClientProvider>
    </StrictMode>,
  );
}
