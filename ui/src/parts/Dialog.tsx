import { useEffect, useRef, type ReactNode } from "react";

interface Open {
  title: string;
  onClose: () => void;
  children: ReactNode;
  isTop?: boolean;
  isWide?: boolean;
}

/** The browser's own dialog: it keeps the focus inside and gives it back. */
export function Dialog({ title, onClose, children, isTop = false, isWide = false }: Open) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const shown = dialog.current;
    shown?.showModal();
    // The browser gives the focus to the first button there is; where something is typed, that comes first.
    shown?.querySelector("input")?.focus();
    return () => shown?.close();
  }, []);
  return (
    <dialog
      ref={dialog}
      className={`${isTop ? "top" : ""} ${isWide ? "wide" : ""}`}
      aria-label={title}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => {
        if (event.target === dialog.current) onClose();
      }}
    >
      <div className="dialog">
        <header>
          <h2>{title}</h2>
          <button type="button" className="icon" aria-label="Close" onClick={onClose}>
            ✕
          </button>
        </header>
        {children}
      </div>
    </dialog>
  );
}
