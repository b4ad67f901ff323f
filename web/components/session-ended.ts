/** Whether the session has ended by itself: the pages are hidden then, until the same user signs in again. */
import { createContext } from 'preact'

export const SessionEnded = createContext(false)
