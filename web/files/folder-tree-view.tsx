/** A tree of folders, of which one is the active one (ARIA Authoring Practices, tree view pattern). */
import { ChevronDown, ChevronRight, Folder, House } from 'lucide-preact'
import { useEffect, useId, useMemo, useRef, type MutableRef } from 'preact/hooks'
import { Link } from 'wouter-preact'
import { rowHeight } from '../components/appearance.ts'
import { addressOf, parentOf } from '../components/places.ts'
import { useVirtualizer, withItem } from '../components/virtual.ts'
import { textsOf } from '../texts/texts.ts'
import type { FolderNode } from './folder-tree.ts'
import './folder-tree-view.css'

const texts = textsOf('common')

/** The indentation of a folder for each level, in pixels. */
const indentation = 18

interface FolderTreeProps {
  readonly label: string
  readonly nodes: readonly FolderNode[]
  /** The folder that keys act on. */
  readonly active: string
  /** The user moves to a folder. */
  readonly onActive: (path: string) => void
  readonly onExpand: (path: string, isExpanded: boolean) => void
  /** The user presses Enter. */
  readonly onEnter: () => void
  /** The folder whose page is shown: the folders are links to their pages. Absent: the active one is selected. */
  readonly current?: string
}

export function FolderTree({ label, nodes, active, onActive, onExpand, onEnter, current }: FolderTreeProps) {
  const id = useId()
  const height = useMemo(rowHeight, [])
  const scroller = useRef<HTMLDivElement>(null)
  const index = Math.max(
    0,
    nodes.findIndex(({ path }) => path === active),
  )
  const virtualizer = useVirtualizer({
    count: nodes.length,
    overscan: 8,
    rangeExtractor: withItem(index),
    getScrollElement: () => scroller.current,
    estimateSize: () => height,
  })
  useEffect(() => virtualizer.scrollToIndex(index), [index])
  const items = virtualizer.getVirtualItems()

  function moveTo(target: number): void {
    const node = nodes[Math.min(Math.max(target, 0), nodes.length - 1)]
    if (node) onActive(node.path)
  }

  function onKeyDown(event: KeyboardEvent): void {
    const node = nodes[index]
    if (!node || event.ctrlKey || event.altKey || event.metaKey) return
    if (event.key === 'ArrowDown') moveTo(index + 1)
    else if (event.key === 'ArrowUp') moveTo(index - 1)
    else if (event.key === 'Home') moveTo(0)
    else if (event.key === 'End') moveTo(nodes.length - 1)
    else if (event.key === 'ArrowRight' && !node.isExpanded) onExpand(node.path, true)
    else if (event.key === 'ArrowRight') moveTo(isParent(node, nodes[index + 1]) ? index + 1 : index)
    else if (event.key === 'ArrowLeft' && node.isExpanded && !node.isLeaf) onExpand(node.path, false)
    else if (event.key === 'ArrowLeft') onActive(parentOf(node.path))
    else if (event.key === 'Enter') onEnter()
    else if (event.key.length === 1 && event.key !== ' ') moveTo(indexOfName(nodes, index, event.key))
    else return
    event.preventDefault()
  }

  return (
    <div
      ref={scroller}
      class={current === undefined ? 'folder-tree' : 'folder-tree of-links'}
      role="tree"
      aria-label={label}
      // At first no folder is in the document.
      aria-activedescendant={items.some((item) => item.index === index) ? `${id}-${index}` : undefined}
      tabIndex={0}
      autofocus={current === undefined}
      style={current === undefined ? undefined : { height: `${nodes.length * height}px` }}
      onKeyDown={onKeyDown}
    >
      <div role="presentation" style={{ height: `${virtualizer.getTotalSize()}px` }}>
        {items.map((item) => {
          const node = nodes[item.index]
          return (
            node && (
              <TreeRow
                key={node.path}
                id={`${id}-${item.index}`}
                node={node}
                start={item.start}
                isActive={item.index === index}
                current={current}
                onActive={() => onActive(node.path)}
                onToggle={() => onExpand(node.path, !node.isExpanded)}
                tree={scroller}
              />
            )
          )
        })}
      </div>
    </div>
  )
}

interface TreeRowProps {
  readonly id: string
  readonly node: FolderNode
  /** Pixels from the top of the tree. */
  readonly start: number
  readonly isActive: boolean
  readonly current: string | undefined
  readonly onActive: () => void
  readonly onToggle: () => void
  readonly tree: MutableRef<HTMLElement | null>
}

function TreeRow({ id, node, start, isActive, current, onActive, onToggle, tree }: TreeRowProps) {
  const isLink = current !== undefined
  const Chevron = node.isExpanded ? ChevronDown : ChevronRight
  const FolderIcon = node.level === 1 ? House : Folder
  const attributes = {
    id,
    role: 'treeitem',
    'aria-level': node.level,
    'aria-posinset': node.position,
    'aria-setsize': node.siblings,
    'aria-expanded': node.isLeaf ? undefined : node.isExpanded,
    style: { transform: `translateY(${start}px)`, paddingInlineStart: `${(node.level - 1) * indentation}px` },
  } as const
  const content = (
    <>
      <span
        class={node.isLeaf ? 'tree-toggle leaf' : 'tree-toggle'}
        onClick={(event) => {
          event.stopPropagation()
          // The row may be a link.
          event.preventDefault()
          onToggle()
        }}
      >
        <Chevron aria-hidden size={16} />
      </span>
      <FolderIcon aria-hidden size={16} class={node.level === 1 ? undefined : 'icon-folder'} />
      <span class="name">{node.name}</span>
      {node.problem !== undefined && <span class={isLink ? 'muted name' : 'muted problem'}>{node.problem}</span>}
    </>
  )
  if (!isLink) {
    return (
      <div
        {...attributes}
        class="virtual-item tree-row"
        aria-selected={isActive}
        onClick={onActive}
        onDblClick={onToggle}
      >
        {content}
      </div>
    )
  }
  return (
    <Link
      {...attributes}
      class={isActive ? 'virtual-item tree-row active' : 'virtual-item tree-row'}
      href={addressOf(node.path)}
      title={node.problem === undefined ? node.name : texts.labelled(node.name, node.problem)}
      tabIndex={-1}
      aria-current={node.path === current ? 'page' : undefined}
      onClick={onActive}
      // The tree keeps the focus, so that keys go on from here.
      onFocus={() => tree.current?.focus()}
    >
      {content}
    </Link>
  )
}

function isParent(node: FolderNode, next: FolderNode | undefined): boolean {
  return next?.level === node.level + 1
}

/** The next folder after `from`, around the end, whose name begins with the letter; `from` if there is none. */
function indexOfName(nodes: readonly FolderNode[], from: number, letter: string): number {
  const start = letter.toLowerCase()
  for (let step = 1; step <= nodes.length; step++) {
    const index = (from + step) % nodes.length
    if (nodes[index]?.name.toLowerCase().startsWith(start) === true) return index
  }
  return from
}
