/** What the style sheets ask of the window, for what differs by more than its style. */
import { useEffect, useState } from 'preact/hooks'

/** Whether the media query is true of the window, now and after each change. */
export function useMedia(query: string): boolean {
  const [matches, setMatches] = useState(() => matchMedia(query).matches)
  useEffect(() => {
    const list = matchMedia(query)
    const update = (): void => setMatches(list.matches)
    update()
    list.addEventListener('change', update)
    return () => list.removeEventListener('change', update)
  }, [query])
  return matches
}
