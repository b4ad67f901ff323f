/** A list of which only the part in view exists in the document. */
import {
  elementScroll,
  observeElementOffset,
  observeElementRect,
  Virtualizer,
  type VirtualizerOptions,
} from '@tanstack/virtual-core'
import { useLayoutEffect, useReducer, useState } from 'preact/hooks'

type Options = Pick<
  VirtualizerOptions<HTMLElement, HTMLElement>,
  'count' | 'estimateSize' | 'getScrollElement' | 'overscan' | 'lanes'
>

export function useVirtualizer(options: Options): Virtualizer<HTMLElement, HTMLElement> {
  const [, render] = useReducer((count: number) => count + 1, 0)
  const complete: VirtualizerOptions<HTMLElement, HTMLElement> = {
    observeElementRect,
    observeElementOffset,
    scrollToFn: elementScroll,
    onChange: () => render(undefined as never),
    ...options,
  }
  const [virtualizer] = useState(() => new Virtualizer(complete))
  virtualizer.setOptions(complete)
  useLayoutEffect(() => virtualizer._didMount(), [virtualizer])
  useLayoutEffect(() => virtualizer._willUpdate())
  return virtualizer
}
