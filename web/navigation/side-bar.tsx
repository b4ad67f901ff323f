/** The places of the console, and for admins the pages of the administration. */
import { Files, type LucideIcon } from 'lucide-preact'
import { useEffect, useId, useRef } from 'preact/hooks'
import { Link, useLocation } from 'wouter-preact'
import { isOfTree } from '../components/places.ts'
import type { Me } from '../session/me.ts'
import { number } from '../texts/format.ts'
import { textsOf } from '../texts/texts.ts'
import { FolderPlaces } from './folder-places.tsx'
import { administrationOf, pagesOf, tasksAddress, type NamedPage } from './pages.ts'
import { useTaskCount } from './task-count.ts'
import './side-bar.css'

const texts = textsOf('common')

interface SideBarProps {
  readonly me: Me
  /** Shows the symbols only. */
  readonly isNarrow?: boolean
}

export function SideBar({ me, isNarrow = false }: SideBarProps) {
  const [location] = useLocation()
  const unfinished = useTaskCount(me)
  const bar = useRef<HTMLElement>(null)
  function showCurrent(): void {
    bar.current?.querySelector('.place[aria-current]')?.scrollIntoView({ block: 'nearest' })
  }
  useEffect(showCurrent, [location])
  return (
    <nav ref={bar} aria-label={texts.main} class={isNarrow ? 'side-bar symbols' : 'side-bar'}>
      {isNarrow ? (
        <ul class="places">
          <Place name={texts.nav.files} address="/" Icon={Files} isCurrent={isOfTree(location)} />
        </ul>
      ) : (
        <FolderPlaces onResize={showCurrent} />
      )}
      <Places pages={pagesOf(me)} counts={{ [tasksAddress]: unfinished }} />
      {administrationOf(me).map(({ name, pages }) => (
        <Places key={name} title={name} pages={pages} />
      ))}
    </nav>
  )
}

interface PlacesProps {
  readonly title?: string
  readonly pages: readonly NamedPage[]
  /** How many things are in progress on a page, by its address. */
  readonly counts?: Readonly<Record<string, number>>
}

function Places({ title, pages, counts = {} }: PlacesProps) {
  const [location] = useLocation()
  return (
    <>
      {title !== undefined && <p class="places-title">{title}</p>}
      <ul class="places" aria-label={title}>
        {pages.map((page) => (
          <Place
            key={page.address}
            {...page}
            isCurrent={isAt(location, page.address)}
            count={counts[page.address] ?? 0}
          />
        ))}
      </ul>
    </>
  )
}

interface PlaceProps {
  readonly name: string
  readonly address: string
  readonly Icon: LucideIcon
  readonly isCurrent: boolean
  readonly count?: number
}

function Place({ name, address, Icon, isCurrent, count = 0 }: PlaceProps) {
  const id = useId()
  return (
    <li>
      <Link
        href={address}
        class="place"
        title={name}
        aria-describedby={count > 0 ? id : undefined}
        aria-current={isCurrent ? 'page' : undefined}
      >
        <Icon aria-hidden size={18} />
        <span class="place-name">{name}</span>
      </Link>
      {count > 0 && (
        <span id={id} class="place-count">
          {number(count)}
          <span class="for-screen-readers"> {texts.inProgress}</span>
        </span>
      )}
    </li>
  )
}

/** Whether the address is that of the page, or below it. */
function isAt(location: string, address: string): boolean {
  return location === address || location.startsWith(`${address}/`)
}
