/* What the theme leaves out for keyboards and screen readers. */
addEventListener("DOMContentLoaded", () => {
  for (const caption of document.querySelectorAll("p.caption[role=heading]")) caption.setAttribute("aria-level", "2");
  document.querySelector(".sidebar-drawer")?.setAttribute("aria-label", "All pages");
  document.querySelector(".toc-drawer")?.setAttribute("aria-label", "This page");
  const reachable = () => {
    for (const box of document.querySelectorAll("article pre, article .table-wrapper, article p:has(> img)"))
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
  };
  reachable();
  addEventListener("resize", reachable);
});
