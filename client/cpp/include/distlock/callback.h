// SPDX-License-Identifier: Apache-2.0
//
// Callback: a function object that is moved and never copied, so that it may capture what cannot be copied, such as a
// std::unique_ptr. What std::move_only_function is from C++23 on. A value; one thread at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace distlock {

template <class Signature>
class Callback;

template <class R, class... Args>
class Callback<R(Args...)> {
  template <class F>
  static constexpr bool kCallable =
      !std::is_same_v<std::remove_cvref_t<F>, Callback> && std::is_invocable_r_v<R, std::decay_t<F>&, Args...>;

 public:
  Callback() = default;        // empty, as nullptr
  Callback(std::nullptr_t) {}  // NOLINT: converts on purpose

  // An empty std::function, or a null pointer to a function, makes an empty Callback.
  template <class F, class = std::enable_if_t<kCallable<F>>>
  Callback(F&& function) {  // NOLINT: converts on purpose
    using T = std::decay_t<F>;
    if constexpr (requires(const T& f) { static_cast<bool>(f == nullptr); }) {
      if (function == nullptr) return;
    }
    if constexpr (kFitsInside<T>) {
      ::new (static_cast<void*>(&room_)) T(std::forward<F>(function));
    } else {
      ::new (static_cast<void*>(&room_)) T*(new T(std::forward<F>(function)));
    }
    kind_ = &kKindOf<T>;
  }

  Callback(Callback&& other) noexcept { Take(other); }
  Callback& operator=(Callback&& other) noexcept {
    if (this == &other) return *this;
    Drop();
    Take(other);
    return *this;
  }
  ~Callback() { Drop(); }

  explicit operator bool() const { return kind_ != nullptr; }
  friend bool operator==(const Callback& callback, std::nullptr_t) { return callback.kind_ == nullptr; }
  // Whether it was made from an F.
  template <class F>
  bool Holds() const {
    return kind_ == &kKindOf<F>;
  }

  // Throws std::bad_function_call when empty.
  // As the signature says, so some are values.
  R operator()(Args... args) {  // NOLINT(performance-unnecessary-value-param)
    if (kind_ == nullptr) throw std::bad_function_call();
    return kind_->call(&room_, std::forward<Args>(args)...);
  }

 private:
  struct Room {
    alignas(void*) std::byte bytes[4 * sizeof(void*)];
  };
  struct Kind {
    R (*call)(Room*, Args&&...);
    void (*move)(Room* from, Room* to) noexcept;  // and destroys `from`
    void (*destroy)(Room*) noexcept;
  };

  template <class T>
  static constexpr bool kFitsInside =
      sizeof(T) <= sizeof(Room) && alignof(T) <= alignof(Room) && std::is_nothrow_move_constructible_v<T>;

  template <class T>
  static T& In(Room* room) {
    if constexpr (kFitsInside<T>) {
      return *std::launder(reinterpret_cast<T*>(room));
    } else {
      return **std::launder(reinterpret_cast<T**>(room));
    }
  }

  template <class T>
  static constexpr Kind kKindOf = {[](Room* room, Args&&... args) -> R {
                                     if constexpr (std::is_void_v<R>) {
                                       static_cast<void>(std::invoke(In<T>(room), std::forward<Args>(args)...));
                                     } else {
                                       return std::invoke(In<T>(room), std::forward<Args>(args)...);
                                     }
                                   },
                                   [](Room* from, Room* to) noexcept {
                                     if constexpr (kFitsInside<T>) {
                                       ::new (static_cast<void*>(to)) T(std::move(In<T>(from)));
                                       In<T>(from).~T();
                                     } else {
                                       ::new (static_cast<void*>(to)) T*(&In<T>(from));
                                     }
                                   },
                                   [](Room* room) noexcept {
                                     if constexpr (kFitsInside<T>) {
                                       In<T>(room).~T();
                                     } else {
                                       delete &In<T>(room);
                                     }
                                   }};

  void Take(Callback& other) noexcept {
    kind_ = std::exchange(other.kind_, nullptr);
    if (kind_ != nullptr) kind_->move(&other.room_, &room_);
  }
  void Drop() noexcept {
    if (kind_ != nullptr) std::exchange(kind_, nullptr)->destroy(&room_);
  }

  Room room_;
  const Kind* kind_ = nullptr;
};

}  // namespace distlock
