/** A failure in the place of what could not be shown. */
import { textsOf } from '../texts/texts.ts'
import { messageOf } from './error-text.ts'
import './failure.css'

const texts = textsOf('common')

interface FailureProps {
  readonly error: unknown
  readonly title?: string
  readonly onRetry?: () => void
}

export function Failure({ error, title, onRetry }: FailureProps) {
  return (
    <div role="alert" class="failure">
      {title !== undefined && <h2>{title}</h2>}
      <p>{messageOf(error)}</p>
      {onRetry && (
        <button type="button" onClick={onRetry}>
          {texts.retry}
        </button>
      )}
    </div>
  )
}
