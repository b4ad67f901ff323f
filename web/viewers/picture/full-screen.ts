/** Shows an element on the whole screen (Fullscreen API), where the browser can. */
import type { RefObject } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { reporting } from '../../components/notices.tsx'

/** `toggle`: undefined if the browser cannot. */
export function useFullScreen(element: RefObject<HTMLElement>) {
  const [isFull, setFull] = useState(false)
  useEffect(() => {
    const onChange = () => setFull(document.fullscreenElement !== null)
    document.addEventListener('fullscreenchange', onChange)
    return () => document.removeEventListener('fullscreenchange', onChange)
  }, [])
  const toggle = () => {
    const change = document.fullscreenElement ? document.exitFullscreen() : element.current?.requestFullscreen()
    if (change) void reporting(change)
  }
  return { isFull, toggle: document.fullscreenEnabled ? toggle : undefined }
}
