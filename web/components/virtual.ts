/** A list of which only the part in view exists in the document. */
import {
  defaultRangeExtractor,
  elementScroll,
  observeElementOffset,
  observeElementRect,
  Virtualizer,
  type Range,
  type VirtualizerOptions,
} from '@tanstack/virtual-core'
import { useLayoutEffect, useReducer, useState } from 'preact/hooks'

type Options = Pick<
  VirtualizerOptions<HTMLElement, HTMLElement>,
  'count' | 'estimateSize' | 'getScrollElement' | 'overscan' | 'lanes' | 'rangeExtractor'
>

/** A `rangeExtractor` that keeps one more item in the document: the one that has the focus. */
export function withItem(item: number): (range: Range) => number[] {
  return (range) => {
    const indexes = defaultRangeExtractor(range)
    if (item < (indexes[0] ?? 0)) return [item, ...indexes]
    return item > (indexes.at(-1) ?? -1) && item < range.count ? [...indexes, item] : indexes
  }
}

export function useVirtualizer(options: Options): Virtualizer<HTMLElement, HTMLElement> {
  const [, render] = useReducer((count: number) => count + 1, 0)
  const complete: VirtualizerOptions<HTMLElement, HTMLElement> = {
    observeElementRect,
    observeElementOffset,
    scrollToFn: elementScroll,
    onChange: () => render(undefined),
    ...options,
  }
  const [virtualizer] = useState(() => new Virtualizer(complete))
  virtualizer.setOptions(complete)
  useLayoutEffect(() => virtualizer._didMount(), [virtualizer])
  useLayoutEffect(() => virtualizer._willUpdate())
  return virtualizer
}
