/** Parts of the page whose programs are loaded when they are first shown. */
import type { ComponentChildren } from 'preact'
import { Suspense } from 'preact/compat'
import { useErrorBoundary } from 'preact/hooks'
import { texts } from '../texts.ts'
import { Failure } from './failure.tsx'

interface LoadedProps {
  /** Shows nothing while it is loaded. */
  readonly quiet?: boolean
  readonly children: ComponentChildren
}

/** Shows a failure in the place of a part that could not be loaded or shown. */
export function Loaded({ quiet = false, children }: LoadedProps) {
  const [error] = useErrorBoundary((failure) => console.error(failure)) as readonly [unknown, () => void]
  if (error !== undefined) {
    return <Failure error={new Error(texts.notLoaded)} onRetry={() => location.reload()} />
  }
  return <Suspense fallback={quiet ? null : <p class="loading">{texts.loading}</p>}>{children}</Suspense>
}
