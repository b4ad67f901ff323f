/** What stands where nothing is: what is so, and what can be done. */
import type { LucideIcon } from 'lucide-preact'
import type { ComponentChildren } from 'preact'
import './empty.css'

interface EmptyProps {
  readonly Icon: LucideIcon
  readonly text: string
  /** The next step. */
  readonly children?: ComponentChildren
}

export function Empty({ Icon, text, children }: EmptyProps) {
  return (
    <div class="empty">
      <Icon aria-hidden size={48} />
      <p>{text}</p>
      {children}
    </div>
  )
}
