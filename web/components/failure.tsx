/** A failure in the place of what could not be shown. */
import { TriangleAlert } from 'lucide-preact'
import type { ComponentChildren } from 'preact'
import { textsOf } from '../texts/texts.ts'
import { messageOf } from './error-text.ts'
import './failure.css'

const texts = textsOf('common')

interface FailureProps {
  readonly error: unknown
  readonly title?: string
  readonly onRetry?: () => void
  /** Another way on. */
  readonly children?: ComponentChildren
}

export function Failure({ error, title, onRetry, children }: FailureProps) {
  return (
    <div role="alert" class="failure">
      <TriangleAlert aria-hidden size={24} />
      <div>
        {title !== undefined && <h2>{title}</h2>}
        <p>{messageOf(error)}</p>
        {(onRetry !== undefined || children !== undefined) && (
          <div class="row-buttons">
            {onRetry && (
              <button type="button" onClick={onRetry}>
                {texts.retry}
              </button>
            )}
            {children}
          </div>
        )}
      </div>
    </div>
  )
}
