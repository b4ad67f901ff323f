/** Shows one picture after the other, each for some seconds. */
import { useEffect, useRef, useState } from 'preact/hooks'

/** The choices, in seconds. */
export const intervals = [3, 5, 10, 30] as const

const kept = 'slideshow-seconds'

function intervalKept(): number {
  const seconds = Number(localStorage.getItem(kept))
  return intervals.find((each) => each === seconds) ?? 5
}

/**
 * `isReady`: whether the picture at `path` is shown, or cannot be: its time begins then. `onNext`: shows the next one;
 * undefined if there is no other. A picture that nobody can see, because the page is hidden, stays.
 */
export function useSlideshow(path: string, isReady: boolean, onNext: (() => void) | undefined) {
  const [isOn, setOn] = useState(false)
  const [seconds, setSeconds] = useState(intervalKept)
  const isPlaying = isOn && onNext !== undefined
  const next = useRef(onNext)
  next.current = onNext
  useEffect(() => {
    if (!isPlaying || !isReady) return
    const ended = new AbortController()
    const go = () => next.current?.()
    const timer = setTimeout(() => {
      if (!document.hidden) return go()
      document.addEventListener('visibilitychange', go, { once: true, signal: ended.signal })
    }, seconds * 1000)
    return () => {
      clearTimeout(timer)
      ended.abort()
    }
  }, [path, isPlaying, isReady, seconds])
  return {
    isPlaying,
    seconds,
    /** Undefined if there is no other picture. */
    toggle: onNext && (() => setOn(!isPlaying)),
    choose: (chosen: number) => {
      localStorage.setItem(kept, String(chosen))
      setSeconds(chosen)
    },
  }
}
