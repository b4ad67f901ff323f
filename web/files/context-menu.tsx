import type { Change } from './changes.tsx'
interface ContextMenuProps {
  readonly at: { readonly x: number; readonly y: number }
  readonly path: string
  readonly onClose: () => void
  readonly onChange: (change: Change) => void
}
export function ContextMenu(_: ContextMenuProps) {
  return null
}
