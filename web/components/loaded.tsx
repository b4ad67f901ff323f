/** Parts of the page whose programs are loaded when they are first shown. */
import type { ComponentChildren, ComponentType } from 'preact'
// eslint-disable-next-line no-restricted-syntax -- this is the place
import { lazy, Suspense } from 'preact/compat'
import { useErrorBoundary } from 'preact/hooks'
import { textsOf, withTexts } from '../texts/texts.ts'
import { Failure } from './failure.tsx'
import './loaded.css'

const texts = textsOf('common')

/** A component that is loaded, with its texts, when it is first shown in a `Loaded`. */
export function part<Props>(load: () => Promise<{ readonly default: ComponentType<Props> }>): ComponentType<Props> {
  return lazy(() => withTexts(load()))
}

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
  return <Suspense fallback={quiet ? null : <p class="loading skeleton">{texts.loading}</p>}>{children}</Suspense>
}
