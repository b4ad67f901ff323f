/** The URL of what is shown, which stays when the server signs it anew. */
import { useRef } from 'preact/hooks'

/** The first `url` that was given for the path: another signature would load the file again, from its beginning. */
export function useSteadyUrl(path: string, url: string): string {
  const first = useRef({ path, url })
  if (first.current.path !== path) first.current = { path, url }
  return first.current.url
}
